package scheduler

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/scheduler/value"
)

// Plain returns the reason in plain words: the place that it concerns ("" for none), and the
// problem there. elsewhere says that the job did not request the place, or can never use it, so
// that it does not wait for it.
func (r *Reason) Plain() (place, text string, elsewhere bool) {
	m := r.model
	switch r.kind {
	case atPlace:
		return r.plainResource()
	case quotaExceeded:
		return "", "a resource quota: " + strings.TrimPrefix(r.text, "cannot run because it "), false
	case fewSlots, peSlots:
		if r.kind == peSlots {
			return "parallel environment " + m.PEName(PEID(r.place)), fmt.Sprintf("only %d slots are to be had", r.number), false
		}
		return r.placeName(), fmt.Sprintf("only %d slots are free", r.number), false
	case peTotal:
		return "parallel environment " + m.PEName(PEID(r.place)), "it never has as many slots as are asked for", false
	case peRule:
		return "parallel environment " + m.PEName(PEID(r.place)), r.text, false
	case noCores:
		return m.HostName(HostID(r.place)), "not enough free cores (-binding)", false
	case elementsGiven:
		return r.placeName(), r.text, false
	case droppedFull:
		return m.instances[r.place].name, "all slots are in use", false
	case droppedDisabled:
		return m.instances[r.place].name, "it is disabled", false
	case droppedSuspended:
		return m.instances[r.place].name, "it is suspended", false
	case droppedUnavailable:
		return m.instances[r.place].name, "it is not available", false
	case droppedOverload:
		return m.instances[r.place].name, "its host is too busy: " + r.text, false
	case userLimit:
		return "", "as many jobs of this user run as may at the same time (maxujobs)", false
	case arrayLimit:
		return "", "as many tasks of this array run as may at the same time (-tc, max_aj_instances)", false
	case uncleanHost:
		return m.HostName(HostID(r.place)), "what ran before has not been cleaned up", false
	case allDropped: // the reasons of the single places say the same
		return "", "", true
	case noSuchCheckpoint:
		return "", "a checkpointing environment of that name (-ckpt)", true
	case noMatchingPE:
		return "", "no parallel environment has the name that is asked for (-pe), with as many slots", true
	case notBookable:
		return m.instances[r.place].name, "what is asked for cannot be counted with what is in use: " + r.text, false
	case suspendAlarm:
		return "", strings.Replace(strings.TrimPrefix(r.text, "queue instance "), " is in suspend alarm", ": jobs there are suspended", 1), false
	}
	if text := r.unfit(); text != "" {
		return r.unfitPlace(), text, true
	}
	return "", r.Text(), false
}

// unfit explains why a job can never use a place, whatever runs there; "" if it can.
func (r *Reason) unfit() string {
	switch r.kind {
	case queueNotListed, hostNotListed, instanceNotListed:
		return "it is not among the queues that are asked for (-q)"
	case queueRequest:
		return "it does not have " + r.text
	case queueNoAccess, hostNoAccess, instanceNoAccess, globalNoAccess:
		return "this user may not use it (user_lists, xuser_lists)"
	case queueWrongProject, hostWrongProject, instanceWrongProject, globalWrongProject:
		return "it is for other projects (projects)"
	case hostExcludedProject, instanceExcludedProject, globalExcludedProject:
		return "it is closed to the project (xprojects)"
	case notInPEList, instanceNotInPEList:
		return "the parallel environment " + r.text + " is not on its list (pe_list)"
	case notParallel:
		return "it is for no parallel environment (pe_list)"
	case notCheckpointing:
		return "it is for no checkpointing environment (ckpt_list)"
	case notInCheckpointList:
		return "the checkpointing environment " + r.text + " is not on its list (ckpt_list)"
	case notBatch:
		return "it takes no batch jobs (qtype)"
	case notInteractive:
		return "it takes no interactive jobs (qtype)"
	case forcedByQueue, forcedByHost, forcedByGlobal:
		return "it is for jobs that ask for " + r.model.attributes[r.attribute].Name + " (FORCED)"
	case noPEAccess:
		return "this user may not use it (user_lists, xuser_lists)"
	}
	return ""
}

// unfitPlace returns the place that unfit is about.
func (r *Reason) unfitPlace() string {
	switch r.kind {
	case queueNotListed, queueRequest, queueNoAccess, queueWrongProject, notInPEList, notInteractive:
		return "queue " + r.model.queues[r.place].name
	case hostNotListed, hostNoAccess, hostWrongProject, hostExcludedProject, forcedByHost:
		return "host " + r.model.HostName(HostID(r.place))
	case globalNoAccess, globalWrongProject, globalExcludedProject, forcedByGlobal:
		return "the whole cluster"
	case noPEAccess:
		return "parallel environment " + r.model.PEName(PEID(r.place))
	}
	return r.model.instances[r.place].name
}

// plainResource explains which resource a place lacks.
func (r *Reason) plainResource() (place, text string, elsewhere bool) {
	name := r.model.attributes[r.attribute].Name
	switch r.layer {
	case 'g':
		place = "the whole cluster"
	case 'h':
		place = "host " + r.model.HostName(HostID(r.place))
	default:
		place = r.model.instances[r.place].name
	}
	if r.unknown {
		return place, "there is no " + name, true
	}
	have := r.value.Format(value.Reason)
	switch {
	case r.exclusive:
		text = name + ": another job is there, and both cannot be"
	case r.attribute == r.model.slots && r.value.Number() < 1:
		text = "no slot is free"
	case r.from == Consumable:
		text = "only " + have + " of " + name + " is left"
	default:
		text = name + " is " + have + " there"
	}
	if r.reserved {
		text += ", the rest is reserved"
	}
	return place, text, !r.exclusive && r.from != Consumable && r.attribute != r.model.slots
}
