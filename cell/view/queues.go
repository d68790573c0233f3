package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/value"
)

// Selection lists the names of the resources to show. Nil selects all of them.
type Selection []string

// None selects no resource.
var None = Selection{}

func (s Selection) has(name string) bool {
	return s == nil || slices.Contains(s, name)
}

// Queues returns the queue instances, with resources as qstat -F shows them.
func (v *View) Queues(s Selection) []qstat.QueueInstance {
	var list []qstat.QueueInstance
	for i := range v.model.Instances() {
		list = append(list, v.queue(scheduler.InstanceID(i), s))
	}
	return list
}

func (v *View) queue(id scheduler.InstanceID, s Selection) qstat.QueueInstance {
	settings := v.model.Settings(id)
	host := v.model.HostOf(id)
	o := v.observe()
	q := qstat.QueueInstance{
		Queue: settings.Queue, Host: v.model.HostName(host), SequenceNumber: settings.SeqNo, Type: v.queueType(settings),
		Errors: v.cell.ErrorsOf(id),
	}
	q.Reserved, q.Used, q.Total = o.SlotsOf(id)
	q.ReservedMax = v.reservedMax(id)
	if x, ok := v.load(host, "load_avg"); ok {
		n := x.Number()
		q.Load = &n
	}
	if x, ok := v.load(host, "arch"); ok {
		q.Arch = x.String()
	}
	load, suspend := o.Crossed(id)
	q.LoadAlarms, q.SuspendAlarms = v.alarms(host, load), v.alarms(host, suspend)
	q.State = v.state(id)
	for _, r := range o.Instance(id) {
		if s.has(v.attribute(r.Attribute)) {
			q.Resources = append(q.Resources, v.resource(&r, value.QStat))
		}
	}
	return q
}

func (v *View) attribute(id scheduler.AttributeID) string { return v.model.Attributes()[id].Name }

func (v *View) resource(r *scheduler.Resource, f value.Form) qstat.Resource {
	shown := qstat.Resource{
		Dominance: string([]byte{r.Layer, byte(r.Kind)}), Name: v.attribute(r.Attribute), Value: r.Value.Format(f),
	}
	if r.Total.IsValid() && !r.Total.IsInfinite() {
		shown.Total = r.Total.Number()
	}
	return shown
}

// queueType returns the letters of the types of a queue instance.
func (v *View) queueType(s *qconf.QueueInstance) string {
	var b strings.Builder
	for _, t := range [...]struct {
		letter byte
		has    bool
	}{{'B', s.Batch}, {'I', s.Interactive}, {'P', len(s.PEList) > 0}, {'C', len(s.CkptList) > 0}} {
		if t.has {
			b.WriteByte(t.letter)
		}
	}
	return b.String()
}

// states are the letters of the states, in the order of qstat.
var states = [...]struct {
	letter byte
	status scheduler.Status
}{
	{'C', scheduler.SuspendedByCalendar},
	{'D', scheduler.DisabledByCalendar},
	{'d', scheduler.DisabledByUser},
	{'u', scheduler.Unknown},
	{'E', scheduler.Failed},
	{'S', scheduler.Subordinated},
	{'s', scheduler.SuspendedByUser},
}

func (v *View) state(id scheduler.InstanceID) string {
	var b strings.Builder
	load, suspend := v.observe().Alarmed(id)
	if load {
		b.WriteByte('a')
	}
	if suspend {
		b.WriteByte('A')
	}
	status := v.cell.State().Status(id)
	for _, s := range states {
		if status&s.status != 0 {
			b.WriteByte(s.letter)
		}
	}
	if v.model.Ambiguous(id) != nil {
		b.WriteByte('c')
	}
	if status&scheduler.Orphaned != 0 {
		b.WriteByte('o')
	}
	return b.String()
}

// alarms returns the thresholds of an alarm. A load value is shown as it was reported.
func (v *View) alarms(host scheduler.HostID, crossed []scheduler.Crossing) []qstat.Alarm {
	var list []qstat.Alarm
	for _, c := range crossed {
		if !c.Value.IsValid() {
			list = append(list, qstat.Alarm{Message: "error: no complex attribute for threshold " + c.Name})
			continue
		}
		a := qstat.Alarm{Threshold: c.Threshold}
		a.Name = c.Name
		a.Dominance = string([]byte{c.Layer, byte(c.Kind)})
		at := host
		if c.Layer == 'g' {
			at = scheduler.GlobalHost
		}
		id, _ := v.model.Attribute(c.Name)
		switch {
		case c.Kind == scheduler.Load && !v.model.Scaled(at, id):
			a.Value = v.cell.Reported(v.model.HostName(at))[c.Name]
		case c.Kind == scheduler.Load || c.Kind == scheduler.Consumable:
			// Grid Engine shows computed values as plain numbers.
			a.Value = fmt.Sprintf("%8.3f", c.Value.Number())
		default:
			a.Value = strconv.FormatFloat(c.Value.Number(), 'f', -1, 64)
			if c.Value.Type().IsText() {
				a.Value = c.Value.String()
			}
		}
		list = append(list, a)
	}
	return list
}

// load returns a load value of a host.
func (v *View) load(host scheduler.HostID, name string) (value.Value, bool) {
	id, ok := v.model.Attribute(name)
	if !ok {
		return value.Value{}, false
	}
	return v.observe().Load(host, id)
}

// ShowLoad replaces the load of queue instances by the value of a numeric resource, as qstat -F
// shows it (qstat(1), SGE_LOAD_AVG); the load of an instance without a value becomes nil. For
// load_avg nothing changes.
func (v *View) ShowLoad(queues []qstat.QueueInstance, name string) {
	for i := range queues {
		q := &queues[i]
		id, ok := v.model.Instance(q.Queue, q.Host)
		if name == "load_avg" || !ok {
			continue
		}
		q.Load = nil
		for _, r := range v.observe().Instance(id) {
			if n := r.Value.Number(); v.attribute(r.Attribute) == name && !r.Value.Type().IsText() && !r.Value.IsInfinite() {
				q.Load = &n
			}
		}
	}
}

// Load returns a load value of a host that is a number, as it was reported.
func (v *View) Load(host, name string) (x float64, ok bool) {
	id, ok := v.model.Host(host)
	if !ok {
		return 0, false
	}
	value, ok := v.load(id, name)
	if !ok {
		return 0, false
	}
	return value.Number(), true
}
