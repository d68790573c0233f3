package scheduler

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/value"
)

// Reason is a cause at one place why a job does not start. Text returns the text of qstat -j.
type Reason struct {
	kind      reasonKind
	exclusive bool // resource: an exclusive resource is in use
	implied   bool // resource: a default or implicit request
	unknown   bool // resource: no layer has the attribute
	reserved  bool // resource, cores: free but for a reservation
	layer     byte
	from      Kind
	attribute AttributeID
	value     value.Value
	place     int32 // index of a queue, an instance, a host or a parallel environment
	number    int   // slots of a parallel environment; number of an advance reservation
	category  *Category
	text      string // of a quota or an alarm; the free cores of a host
	quota     quota.Counter
	never     bool // quota: the job would exceed it even in an empty cluster
	model     *Model
}

type reasonKind uint8

const (
	atPlace reasonKind = iota
	quotaExceeded
	queueRequest
	queueNotListed // in -q
	hostNotListed
	instanceNotListed
	queueNoAccess
	hostNoAccess
	instanceNoAccess
	globalNoAccess
	queueWrongProject
	hostWrongProject
	instanceWrongProject
	globalWrongProject
	hostExcludedProject
	instanceExcludedProject
	globalExcludedProject
	notInPEList
	instanceNotInPEList
	notParallel
	noSuchCheckpoint
	notCheckpointing
	notInCheckpointList
	notBatch
	notInteractive
	forcedByQueue
	forcedByHost
	forcedByGlobal
	uncleanHost
	notReserved
	queueNotReserved
	noMatchingPE
	noPEAccess
	peSlots
	peTotal
	peRule
	fewSlots
	elementsGiven
	droppedFull
	droppedDisabled
	droppedSuspended
	droppedUnavailable
	droppedOverload
	suspendAlarm
	allDropped
	userLimit
	arrayLimit
	badReservation
	noCores
	notBookable
)

// Text returns the reason as qstat(1) -j shows it.
func (r *Reason) Text() string {
	m := r.model
	switch r.kind {
	case atPlace:
		return r.resourceText()
	case quotaExceeded, notReserved, queueNotReserved, badReservation, suspendAlarm:
		return r.text
	case noCores:
		return r.coresText()
	case notBookable:
		return fmt.Sprintf("cannot run in queue %q because its amounts cannot be counted with those in use: %s", m.instances[r.place].name, r.text)
	case peTotal:
		return fmt.Sprintf("cannot run because total slots of PE %q not in range of job", m.PEName(PEID(r.place)))
	case peRule:
		return fmt.Sprintf("cannot run in PE %q because %s", m.PEName(PEID(r.place)), r.text)
	case fewSlots:
		return fmt.Sprintf("cannot run in queue %q because it only offers %d slots", r.placeName(), r.number)
	case elementsGiven:
		return fmt.Sprintf("cannot run in queue %q because %s", r.placeName(), r.text)
	case queueRequest:
		return fmt.Sprintf("(-l %s) cannot run in queue %q because of cluster queue", r.text, m.queues[r.place].name)
	case queueNotListed:
		return fmt.Sprintf("cannot run in queue %q because it is not contained in its hard queue list (-q)", m.queues[r.place].name)
	case hostNotListed:
		return fmt.Sprintf("cannot run in queue %q because it is not contained in its hard queue list (-q)", m.HostName(HostID(r.place)))
	case instanceNotListed:
		return fmt.Sprintf("cannot run in queue %q because it is not contained in its hard queue list (-q)", m.instances[r.place].name)
	case queueNoAccess:
		return fmt.Sprintf("has no permission for cluster queue %q", m.queues[r.place].name)
	case hostNoAccess:
		return fmt.Sprintf("has no permission for host %q", m.HostName(HostID(r.place)))
	case instanceNoAccess:
		return fmt.Sprintf("has no permission for queue %q", m.instances[r.place].name)
	case globalNoAccess:
		return `has no permission for host "global"`
	case queueWrongProject, hostWrongProject, instanceWrongProject, globalWrongProject,
		hostExcludedProject, instanceExcludedProject, globalExcludedProject:
		return r.projectText()
	case notInPEList:
		return fmt.Sprintf("cannot run in queue %q because PE %q is not in PE list", m.queues[r.place].name, r.text)
	case instanceNotInPEList:
		return fmt.Sprintf("cannot run in queue %q because PE %q is not in PE list", m.instances[r.place].name, r.text)
	case notParallel:
		return fmt.Sprintf("cannot run in queue instance %q because it is not of parallel type", m.instances[r.place].name)
	case noSuchCheckpoint:
		return "cannot run because requested ckpt object not found"
	case notCheckpointing:
		return fmt.Sprintf("cannot run in queue instance %q because it is not of type checkpointing", m.instances[r.place].name)
	case notInCheckpointList:
		return fmt.Sprintf("cannot run in queue instance %q because ckpt object %q is not in ckpt list of queue", m.instances[r.place].name, r.text)
	case notBatch:
		return fmt.Sprintf("cannot run in queue instance %q because it is not of type batch", m.instances[r.place].name)
	case notInteractive:
		return fmt.Sprintf("cannot run in queue %q because it is not of type interactive", m.queues[r.place].name)
	case forcedByQueue:
		return fmt.Sprintf("does not request 'forced' resource %q of queue instance %s", m.attributes[r.attribute].Name, m.instances[r.place].name)
	case forcedByHost, forcedByGlobal:
		return fmt.Sprintf("does not request 'forced' resource %q of host %s", m.attributes[r.attribute].Name, m.HostName(HostID(r.place)))
	case uncleanHost:
		return fmt.Sprintf("cannot run on host %q until clean up of a previous run has finished", m.HostName(HostID(r.place)))
	case noMatchingPE:
		return "no matching PE found"
	case noPEAccess:
		return fmt.Sprintf("cannot run because no access to PE %q", m.PEName(PEID(r.place)))
	case peSlots:
		return fmt.Sprintf("cannot run in PE %q because it only offers %d slots", m.PEName(PEID(r.place)), r.number)
	case droppedFull, droppedDisabled, droppedSuspended, droppedUnavailable:
		return fmt.Sprintf("queue instance %q dropped because it is %s", m.instances[r.place].name, droppedText[r.kind])
	case droppedOverload:
		return fmt.Sprintf("queue instance %q dropped because it is overloaded: %s", m.instances[r.place].name, r.text)
	case allDropped:
		return "All queues dropped because of overload or full"
	case userLimit:
		return "job dropped because of user limitations"
	case arrayLimit:
		return "not all array tasks may be started due to 'max_aj_instances'"
	}
	return ""
}

// placeName returns the name of the place of a resource. As in the original's messages about
// parallel jobs, every place is called a queue.
func (r *Reason) placeName() string {
	switch r.layer {
	case 'g':
		return r.model.global.name
	case 'h':
		return r.model.HostName(HostID(r.place))
	}
	return r.model.instances[r.place].name
}

var droppedText = map[reasonKind]string{
	droppedFull: "full", droppedDisabled: "disabled", droppedSuspended: "suspended", droppedUnavailable: "temporarily not available",
}

// projectText returns the text about projects. Like the original, it says that the job has no
// project if a cluster queue refuses a job because of an excluded project.
func (r *Reason) projectText() string {
	m := r.model
	project := r.category.requests.Project
	who := "(no project)"
	if project != "" && r.kind != queueWrongProject {
		who = fmt.Sprintf("(project %s)", project)
	}
	switch r.kind {
	case queueWrongProject:
		return fmt.Sprintf("%s does not have the correct project to run in cluster queue %q", who, m.queues[r.place].name)
	case hostWrongProject:
		return fmt.Sprintf("%s does not have the correct project to run in host %q", who, m.HostName(HostID(r.place)))
	case instanceWrongProject:
		return fmt.Sprintf("%s does not have the correct project to run in queue %q", who, m.instances[r.place].name)
	case globalWrongProject:
		return who + ` does not have the correct project to run in host "global"`
	case hostExcludedProject:
		return fmt.Sprintf("%s is not allowed to run in host %q based on the excluded project list", who, m.HostName(HostID(r.place)))
	case instanceExcludedProject:
		return fmt.Sprintf("%s is not allowed to run in queue %q based on the excluded project list", who, m.instances[r.place].name)
	}
	return who + ` is not allowed to run in host "global" based on the excluded project list`
}

// resourceText returns the text about a resource that a place does not offer.
func (r *Reason) resourceText() string {
	var b strings.Builder
	requests := r.category.text
	if r.category.Parallel() && r.attribute == r.model.slots {
		requests = "slots=1"
	}
	b.WriteString("(-l " + requests + ") cannot run ")
	name := r.model.attributes[r.attribute].Name
	parallel := r.category.Parallel()
	switch {
	case r.layer == 'g' && parallel:
		b.WriteString(`in queue "global"`)
	case r.layer == 'g':
		b.WriteString("globally")
	case r.layer == 'h' && parallel:
		b.WriteString("in queue " + strconv.Quote(r.model.HostName(HostID(r.place))))
	case r.layer == 'h':
		b.WriteString("at host " + strconv.Quote(r.model.HostName(HostID(r.place))))
	default:
		b.WriteString("in queue " + strconv.Quote(r.model.instances[r.place].name))
	}
	b.WriteString(" because ")
	if r.unknown {
		return b.String() + "job requests unknown resource (" + name + ")"
	}
	if r.implied && !parallel {
		b.WriteString("for default request ")
	}
	if r.exclusive {
		b.WriteString("exclusive resource (" + name + ") is already in use")
	} else {
		b.WriteString("it offers only " + string([]byte{r.layer, byte(r.from)}) + ":" + name + "=" + r.value.Format(value.Reason))
	}
	if r.reserved {
		b.WriteString(" due to a reservation")
	}
	return b.String()
}
