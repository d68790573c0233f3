package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Observation is a state as commands show it at a time: load values as they are reported, and the
// remaining amounts of consumables. It excludes the load that the scheduler expects of jobs that
// have just started (tested).
type Observation struct {
	view  *view
	hosts *view // as qhost shows it; nil until it is needed
}

// Observe makes an observation. It is valid until the state changes.
func (s *State) Observe(now int64) *Observation {
	v := &view{State: s, now: now, correction: make([]float64, len(s.model.hosts)+1)}
	v.reduce()
	return &Observation{view: v}
}

// Instance returns the resources of a queue instance as qstat -F shows them, by name: for each
// attribute of the cluster, the host or the queue, the most restrictive value.
func (o *Observation) Instance(id InstanceID) []Resource {
	return o.view.list(AtGlobal(), AtHost(o.view.model.instances[id].host), AtInstance(id))
}

// Host returns the resources of a host as qhost -F shows them. They include those of the whole
// cluster that the host does not restrict further. Unlike in qstat, loads are not scaled and do not
// reduce the remaining amounts of consumables (tested).
func (o *Observation) Host(id HostID) []Resource {
	if id == GlobalHost {
		return o.asReported().list(AtGlobal())
	}
	return o.asReported().list(AtGlobal(), AtHost(id))
}

// asReported sees loads as they are reported.
func (o *Observation) asReported() *view {
	if o.hosts == nil {
		o.hosts = &view{State: o.view.State, now: o.view.now, correction: o.view.correction, unscaled: true}
	}
	return o.hosts
}

func (v *view) list(places ...Place) []Resource {
	var all []Resource
	for id := range v.model.attributes {
		r, ok := v.over(AttributeID(id), places...)
		if !ok {
			continue
		}
		for _, p := range places {
			if r.Kind == Consumable && p.letter() == r.Layer {
				r.Total, _ = v.configuredAt(p, r.Attribute)
			}
		}
		all = append(all, r)
	}
	return all
}

// Load returns the load value of an attribute as a host reports it: neither scaled nor corrected.
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

// SlotsOf returns the used slots of a queue instance, the slots of advance reservations, and the
// total.
func (o *Observation) SlotsOf(id InstanceID) (reserved, used, total int) {
	return o.view.ReservedSlots(id, o.view.now), o.view.UsedSlots(id), o.view.model.instances[id].settings.Slots
}

// Instances returns all queue instances, the most recently modified last.
func (o *Observation) Instances() []InstanceID { return slices.Clone(o.view.byModification()) }
