package scheduler

import (
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Kind is the source of a value, as a letter of qstat -F.
type Kind byte

// The kinds.
const (
	Fixed         Kind = 'f' // configured
	Load          Kind = 'l' // reported
	CorrectedLoad Kind = 'L' // reported, and corrected for recently started jobs
	Consumable    Kind = 'c' // the remaining amount
)

// view is the state at a time, as decisions see it: load values are corrected for recently started jobs,
// and capacities for resources that processes other than jobs use.
type view struct {
	*State
	now int64
	// empty sees the cluster as it would be without any jobs and before any load is
	// reported, as -w e does.
	empty bool
	// unscaled sees loads as they are reported, without load_scaling.
	unscaled bool
	// reported restricts load alarms to reported values, see Admit.
	reported bool
	// planned says that diagrams hold the future usage; current bookings are then ignored.
	planned bool
	// correction is the load correction of each host in hundredths, as whole numbers like in Grid
	// Engine: roughly the recently taken slots. The last element is the cluster's.
	correction []float64
	// reduced is the amount by which a consumable is smaller than configured, by attribute and
	// host; nil for attributes that no host reports.
	reduced [][]float64
}

func newView(s *State, now int64) *view {
	v := &view{State: s, now: now, correction: make([]float64, len(s.model.hosts)+1)}
	v.correct()
	v.reduce()
	return v
}

// whenEmpty sees the cluster as it would be if nothing ran.
func (v *view) whenEmpty() *view {
	empty := *v
	empty.empty = true
	return &empty
}

// correct computes the load correction: each task that is not suspended adds its slots to its
// hosts, with a weight that decreases until load_adjustment_decay_time is over (sched_conf(5),
// job_load_adjustments). A task counts as suspended with its queue only if the instance of its
// master task is suspended; the instances of slaves do not matter (tested).
func (v *view) correct() {
	m := v.model
	decay := m.scheduler.LoadAdjustmentDecayTime.Seconds()
	if len(m.adjustments) == 0 || decay <= 0 {
		return
	}
	v.forgetRecent(v.now, decay)
	for _, r := range v.recent {
		age := float64(v.now - r.Started)
		if age >= decay || r.Idle() || v.instances[r.Grants[0].Instance].status&Subordinated != 0 {
			continue
		}
		part := 1 - max(age, 0)/decay
		for _, g := range r.Grants {
			v.correction[m.instances[g.Instance].host] += math.Trunc(100 * part * float64(g.Slots))
			v.correction[len(m.hosts)] += math.Trunc(100 * part)
		}
	}
}

// forgetRecent drops the tasks that have been running for so long that they no longer correct the load.
func (s *State) forgetRecent(now int64, decay float64) {
	n := 0
	for n < len(s.recent) && float64(now-s.recent[n].Started) >= decay {
		n++
	}
	s.recent = slices.Delete(s.recent, 0, n)
}

// hasStarted corrects the load of the hosts of a task that starts in this run.
func (v *view) hasStarted(grants []Grant) {
	if len(v.model.adjustments) == 0 {
		return
	}
	for _, g := range grants {
		v.correction[v.model.instances[g.Instance].host] += 100 * float64(g.Slots)
		v.correction[len(v.model.hosts)] += 100
	}
}

// loadAt returns the load value of a host with its correction.
func (v *view) loadAt(h HostID, a AttributeID) (value.Value, Kind) {
	if v.empty && !v.static[a] {
		return value.Value{}, Load
	}
	l := v.loadValue(h, a)
	if !l.IsValid() {
		return l, Load
	}
	if v.unscaled {
		if x, ok := v.raw[rawKey{h, a}]; ok {
			l = x
		}
	}
	if shift := v.shift(h, a); shift != 0 {
		return value.OfNumber(l.Type(), l.Number()+shift), CorrectedLoad
	}
	return l, Load
}

// shift returns the amount that is added to a load value for jobs that have just started. It always
// makes the host look more loaded.
func (v *view) shift(h HostID, a AttributeID) float64 {
	adj := v.model.adjusted[a]
	if adj == 0 || v.empty {
		return 0
	}
	lc := v.correction[v.loadIndex(h)] / 100
	if lc == 0 {
		return 0
	}
	attribute := &v.model.attributes[a]
	if isPerCore(attribute.Name) {
		if n := v.processors(h); n > 1 {
			lc /= n
		}
	}
	if larger(attribute.Relop) {
		return adj * lc
	}
	return -adj * lc
}

func isPerCore(name string) bool { return len(name) > 3 && name[:3] == "np_" }

// larger reports whether larger values of an attribute are the worse ones.
func larger(r value.Relop) bool { return r == value.Greater || r == value.GreaterEqual }

func (v *view) processors(h HostID) float64 {
	a, ok := v.model.attributeOf[nproc]
	if !ok {
		return 1
	}
	return max(v.loadValue(h, a).Number(), 1)
}

// capacity returns the capacity of a place for a consumable.
func (v *view) capacity(p Place, a AttributeID) (float64, bool) {
	configured, ok := v.configuredAt(p, a)
	if !ok {
		return 0, false
	}
	c := configured.Number()
	if p.layer == atHost && v.reduced != nil && v.reduced[a] != nil && !v.empty {
		c -= v.reduced[a][p.index]
	}
	return c, true
}

// configuredAt returns the value of an attribute in complex_values of a place. For slots of a queue
// instance that is the attribute slots of the queue.
func (v *view) configuredAt(p Place, a AttributeID) (value.Value, bool) {
	if p.layer == atQueue && a == v.model.slots {
		return v.model.builtin(&v.model.instances[p.index].variant, a)
	}
	if v.model.configured[a]&p.layer == 0 {
		return value.Value{}, false
	}
	return v.model.layerAt(p).configured(a)
}

// builtin returns the value of a resource that every queue has.
func (m *Model) builtin(q *variant, a AttributeID) (value.Value, bool) {
	if at := m.builtAt[a]; at >= 0 {
		return q.built[at], true
	}
	return value.Value{}, false
}

// reduce finds the consumables of hosts for which a load value reports less than the bookings leave,
// because other processes use them. It reduces their capacity to the load value, once in a run.
func (v *view) reduce() {
	m := v.model
	for a := range m.attributes {
		id := AttributeID(a)
		if v.load[a] == nil || m.configured[a]&atHost == 0 || !m.attributes[a].consumable() || larger(m.attributes[a].Relop) {
			continue
		}
		for h := range m.hosts {
			c, ok := m.hosts[h].configured(id)
			l, _ := v.loadAt(HostID(h), id)
			if !ok || !l.IsValid() {
				continue
			}
			gone := v.used.at(AtHost(HostID(h)), id).amount.Left(c.Number()) - l.Number()
			if gone <= 0 {
				continue
			}
			if v.reduced == nil {
				v.reduced = make([][]float64, len(m.attributes))
			}
			if v.reduced[a] == nil {
				v.reduced[a] = make([]float64, len(m.hosts))
			}
			v.reduced[a][h] = gone
		}
	}
}

// at returns the value of an attribute at a place: the configured value, the remaining amount, or
// the reported value, whichever is the most restrictive (complex(5), overriding attributes). It is
// invalid if the place does not have the attribute.
func (v *view) at(p Place, a AttributeID) (value.Value, Kind) {
	attribute := &v.model.attributes[a]
	result, ok := v.configuredAt(p, a)
	found := Fixed
	if ok && attribute.consumable() {
		result, found = v.left(p, a), Consumable
	}
	if p.layer == atQueue {
		built, ok := v.model.builtin(&v.model.instances[p.index].variant, a)
		if ok && a != v.model.slots && (!result.IsValid() || stricter(attribute.Relop, built, result)) {
			return built, Fixed
		}
		return result, found
	}
	host := GlobalHost
	if p.layer == atHost {
		host = HostID(p.index)
	}
	if v.load[a] == nil || result.IsValid() && (attribute.Relop == value.Equal || attribute.Relop == value.NotEqual) {
		return result, found
	}
	load, loadKind := v.loadAt(host, a)
	if load.IsValid() && (!result.IsValid() || stricter(attribute.Relop, load, result)) {
		return load, loadKind
	}
	return result, found
}

// left returns the amount of a consumable that is not in use.
func (v *view) left(p Place, a AttributeID) value.Value {
	attribute := &v.model.attributes[a]
	c, _ := v.capacity(p, a)
	switch {
	case v.empty || v.planned:
		return value.OfNumber(attribute.Type, c)
	case larger(attribute.Relop):
		return value.OfNumber(attribute.Type, v.used.at(p, a).amount.Float())
	}
	return value.OfNumber(attribute.Type, v.used.at(p, a).amount.Left(c))
}

// stricter reports whether the first value restricts more. Equal ones do not.
func stricter(r value.Relop, a, b value.Value) bool {
	if !a.Type().IsNumeric() || !b.Type().IsNumeric() {
		return false
	}
	if larger(r) {
		return a.Number() > b.Number()
	}
	return a.Number() < b.Number()
}

// Resource is the value of an attribute and its source.
type Resource struct {
	Attribute AttributeID
	Value     value.Value
	Layer     byte // g, h or q: the cluster, the host, the queue instance
	Kind      Kind
	// Total is the configured amount of a consumable whose remaining amount is the value. Only
	// Observation sets it.
	Total value.Value
}

// over combines the layers for the load formula and thresholds, which use a single value. The places go
// from the cluster down to the queue instance; the value of a lower one counts if it is more restrictive.
func (v *view) over(a AttributeID, places ...Place) (Resource, bool) {
	r := Resource{Attribute: a}
	relop := v.model.attributes[a].Relop
	for _, p := range places {
		x, kind := v.at(p, a)
		if !x.IsValid() {
			continue
		}
		if !r.Value.IsValid() || relop != value.Equal && relop != value.NotEqual && stricter(relop, x, r.Value) {
			r.Value, r.Kind, r.Layer = x, kind, p.letter()
		}
	}
	return r, r.Value.IsValid()
}

func (p Place) letter() byte {
	switch p.layer {
	case atGlobal:
		return 'g'
	case atHost:
		return 'h'
	}
	return 'q'
}

// sortValue returns the value of the load formula for a host. Hosts are sorted by it, the smallest first.
// If the host lacks a value of the formula, the result is loadformula.Missing.
func (v *view) sortValue(h HostID) float64 {
	return v.model.formula.Eval(func(i int) (float64, bool) {
		id := v.model.formulaAttr[i]
		if id == None {
			return 0, false
		}
		r, ok := v.over(id, AtGlobal(), AtHost(h))
		return r.Value.Number(), ok
	})
}
