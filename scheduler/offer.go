package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
)

// Wanted is a list of resources by which queue instances and hosts are selected, not a request of a
// job: -l of qselect(1), qstat(1) and qhost(1).
type Wanted struct {
	category *Category // with hard requests only
	never    bool      // a value is such that nothing has it
}

// Wanted reads a list of resources. Unlike a request, it may contain slots and resources that are
// not requestable; a value that no job may request matches nothing (tested).
func (m *Model) Wanted(list []qconf.Setting) *Wanted {
	c := &Category{model: m}
	w := &Wanted{category: c}
	for _, s := range list {
		id, ok := m.attributeOf[s.Name]
		if !ok {
			w.never = true
			continue
		}
		r, err := m.readRequest(id, s.Value)
		if err != nil {
			w.never = true
			continue
		}
		if i := slices.IndexFunc(c.hard, func(o request) bool { return o.attribute == id }); i >= 0 {
			c.hard[i] = r // the last one counts
		} else {
			c.hard = append(c.hard, r)
		}
	}
	return w
}

// Resources returns the hard requests of the jobs of a category, as the Wanted of a single slot.
func (c *Category) Resources() *Wanted {
	return &Wanted{category: &Category{model: c.model, hard: c.hard}}
}

// Offered reports whether a queue instance, when it is not in use, has the wanted resources
// according to its settings and to constant load values. Access lists and FORCED resources do not
// count (tested).
func (s *State) Offered(w *Wanted, id InstanceID) bool {
	if w.never {
		return false
	}
	m := &matcher{view: &view{State: s, empty: true}}
	q := &query{category: w.category}
	places := [...]Place{AtGlobal(), AtHost(s.model.instances[id].host), AtInstance(id)}
	for i := range w.category.hard {
		r := &w.category.hard[i]
		if slices.ContainsFunc(places[:], func(p Place) bool { return !m.explicit(q, r, p) }) {
			return false
		}
	}
	return true
}

// OfferedBy reports whether a host itself, or the whole cluster, currently has the wanted
// resources. The name of the host is compared literally (tested).
func (o *Observation) OfferedBy(w *Wanted, id HostID) bool {
	if w.never {
		return false
	}
	for i := range w.category.hard {
		r := &w.category.hard[i]
		if o.view.model.attributes[r.attribute].Name == "hostname" {
			if !qconf.SameHost(o.view.model.hosts[id].name, r.value.String()) {
				return false
			}
			continue
		}
		x, ok := o.asReported().over(r.attribute, AtGlobal(), AtHost(id))
		if !ok || !r.value.Match(o.view.model.attributes[r.attribute].Relop, x.Value) {
			return false
		}
	}
	return true
}
