package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Observation is a state as it is shown at a time: load values with their corrections,
// and what is left of consumables.
type Observation struct{ view *view }

// Observe makes an observation. It is good until the state changes.
func (s *State) Observe(now int64) *Observation { return &Observation{newView(s, now)} }

// Instance are the resources of a queue instance as qstat -F shows them: for each
// attribute that the cluster, the host or the queue has, the value that restricts most,
// by the names of the attributes.
func (o *Observation) Instance(id InstanceID) []Resource {
	return o.list(AtGlobal(), AtHost(o.view.model.instances[id].host), AtInstance(id))
}

// Host are the resources of a host as qhost -F shows them. Those of the whole cluster
// that the host does not restrict further are among them.
func (o *Observation) Host(id HostID) []Resource {
	if id == GlobalHost {
		return o.list(AtGlobal())
	}
	return o.list(AtGlobal(), AtHost(id))
}

func (o *Observation) list(places ...Place) []Resource {
	var all []Resource
	for id := range o.view.model.attributes {
		if r, ok := o.view.over(AttributeID(id), places...); ok {
			all = append(all, r)
		}
	}
	return all
}

// Load is what a host reports of an attribute, as it reports it: neither scaled nor
// corrected.
func (o *Observation) Load(h HostID, a AttributeID) (value.Value, bool) {
	v := o.view.raw[rawKey{h, a}]
	if v.IsValid() {
		return v, true
	}
	v = o.view.loadValue(h, a)
	return v, v.IsValid()
}

// rawKey is a load value that load_scaling changes.
type rawKey struct {
	host      HostID
	attribute AttributeID
}

// SlotsOf are the used slots of a queue instance, those that advance reservations have, and
// all.
func (o *Observation) SlotsOf(id InstanceID) (reserved, used, total int) {
	return o.view.ReservedSlots(id, o.view.now), o.view.UsedSlots(id), o.view.model.instances[id].settings.Slots
}

// Alarms are why a queue instance is in load alarm (a) and in suspend alarm (A), as qstat
// -explain shows it; empty where it is not.
func (o *Observation) Alarms(id InstanceID) (load, suspend string) {
	i := &o.view.model.instances[id]
	load, _ = o.view.alarm(id, i.load)
	suspend, _ = o.view.alarm(id, i.suspend)
	return load, suspend
}

// Instances are all queue instances, in the order in which they were modified last.
func (o *Observation) Instances() []InstanceID { return slices.Clone(o.view.byModification()) }
