package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Crossing is a threshold of a queue instance in alarm, as qstat -explain shows it. The original's
// master compares load values as they are reported: the user sees alarms about the present, not
// about the load that the scheduler expects of jobs that have just started.
type Crossing struct {
	// Name is the name of the complex attribute. Threshold is the configured limit.
	Name, Threshold string
	// Value is invalid if the attribute has no value, which counts as an alarm.
	Value value.Value
	Layer byte // g, h or q
	Kind  Kind // Load, Consumable or Fixed
}

// Crossed returns the load thresholds of a queue instance if one of them is crossed, and the same
// for its suspend thresholds (queue_conf(5)). Each list includes thresholds that are not crossed
// (tested).
func (o *Observation) Crossed(id InstanceID) (load, suspend []Crossing) {
	all := func(thresholds []threshold) []Crossing {
		var list []Crossing
		alarm := false
		for i := range thresholds {
			_, crossed := o.view.crossed(id, &thresholds[i])
			alarm = alarm || crossed
			list = append(list, o.view.crossing(id, &thresholds[i]))
		}
		if !alarm {
			return nil
		}
		return list
	}
	i := &o.view.model.instances[id]
	return all(i.load), all(i.suspend)
}

// Alarmed reports whether a queue instance is in load alarm and in suspend alarm, as the letters a
// and A of qstat show it. The original compares both the reported loads and the loads after
// load_scaling (host_conf(5)), and one crossed threshold is enough; Crossed covers only the latter
// (tested).
func (o *Observation) Alarmed(id InstanceID) (load, suspend bool) {
	alarmed := func(thresholds []threshold) bool {
		return slices.ContainsFunc(thresholds, func(t threshold) bool {
			if _, crossed := o.view.crossed(id, &t); crossed {
				return true
			}
			if !o.view.model.Scaled(o.view.model.instances[id].host, t.attribute) && !o.view.model.Scaled(GlobalHost, t.attribute) {
				return false
			}
			_, crossed := o.asReported().crossed(id, &t)
			return crossed
		})
	}
	i := &o.view.model.instances[id]
	return alarmed(i.load), alarmed(i.suspend)
}

// crossing returns a threshold with the current value and its source.
func (v *view) crossing(id InstanceID, t *threshold) Crossing {
	c := Crossing{Name: t.name, Threshold: t.text, Layer: 'q', Kind: Fixed}
	if t.attribute == None {
		return c
	}
	c.Name = v.model.attributes[t.attribute].Name
	host := v.model.instances[id].host
	// qstat shows the value that holds at the instance, even if the threshold was compared with
	// another value, or with none (tested).
	if r, ok := v.over(t.attribute, AtGlobal(), AtHost(host), AtInstance(id)); ok {
		c.Value, c.Layer, c.Kind = r.Value, r.Layer, r.Kind
	}
	return c
}

// Scaled reports whether load_scaling changes a load value of a host (host_conf(5)).
func (m *Model) Scaled(h HostID, a AttributeID) bool {
	for _, s := range m.hostByID(h).scaling {
		if s.attribute == a {
			return true
		}
	}
	return false
}

// AssumedSlots returns the number of slots that the job's urgency is based on, and that qstat shows
// while the job is pending (sge_pe(5), urgency_slots).
func (c *Category) AssumedSlots() int {
	if len(c.pes) == 0 {
		return 1
	}
	return c.assumedSlots(c.pes[0])
}

// UrgencyOf returns the contribution of the hard request for an attribute to the urgency of a job
// (sge_priority(5)); 0 without a request.
func (c *Category) UrgencyOf(attribute string) float64 {
	id, ok := c.model.attributeOf[attribute]
	if !ok {
		return 0
	}
	r := c.hardRequest(id)
	if r == nil {
		return 0
	}
	a := &c.model.attributes[id]
	if a.Type.IsText() {
		return a.Urgency
	}
	return a.Urgency * r.amount * float64(c.AssumedSlots())
}

// Overloaded reports whether queue instances were dropped because of their load or of suspend
// thresholds. With load adjustments they become usable again as time passes.
func (d *Decisions) Overloaded() bool {
	for i := range d.Dropped {
		if k := d.Dropped[i].kind; k == droppedOverload || k == suspendAlarm {
			return true
		}
	}
	return false
}

// Subordinating reports whether any queue has subordinate ones.
func (m *Model) Subordinating() bool {
	for i := range m.instances {
		if len(m.instances[i].subordinates) > 0 || m.instances[i].settings.Subordinates.Slots > 0 {
			return true
		}
	}
	return false
}

// SetExplaining sets whether runs find the reasons why jobs are pending, as far as the
// configuration requests it (sched_conf(5), schedd_job_info). By default they do.
func (s *State) SetExplaining(on bool) { s.silent = !on }
