package scheduler

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

// marks are the attributes of one element of a resource map, such as the type of a GPU.
type marks map[AttributeID]value.Value

// compileMarks reads the attributes of the elements of a map; nil if no element has any.
func (b *builder) compileMarks(elements qconf.ResourceMap) (list []marks, err error) {
	if elements.Attributes == nil {
		return nil, nil
	}
	for _, settings := range elements.Attributes {
		m := marks{}
		for _, s := range settings {
			id, ok := b.attributeOf[s.Name]
			if !ok || b.attributes[id].consumable() {
				return nil, refuse("%q is no attribute that can be requested of an element", s.Name)
			}
			if m[id], err = value.Parse(b.attributes[id].Type, s.Value); err != nil {
				return nil, err
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// marked returns the first resource map of a place whose elements have an attribute that the place itself
// does not have; nil if there is none.
func (l *layer) marked(a AttributeID) *setting {
	if _, ok := l.configured(a); ok {
		return nil
	}
	for i := range l.settings {
		if s := &l.settings[i]; slices.ContainsFunc(s.marks, func(m marks) bool { return m[a].IsValid() }) {
			return s
		}
	}
	return nil
}

// suits reports whether an element of a map has all attributes that a job requests.
func (c *Category) suits(l *layer, s *setting, i int) bool {
	if s.marks == nil {
		return true
	}
	for r := range c.hard {
		request := &c.hard[r]
		if l.marked(request.attribute) != s {
			continue
		}
		v := s.marks[i][request.attribute]
		if !v.IsValid() || !request.value.Match(c.model.attributes[request.attribute].Relop, v) {
			return false
		}
	}
	return true
}

// anySuits checks that a place has an element with the attributes that a job requests, whether or not it
// is in use.
func (m *matcher) anySuits(q *query, p Place, r *request, s *setting) bool {
	l := m.model.layerAt(p)
	for i := range s.ids {
		if q.category.suits(l, s, i) {
			return true
		}
	}
	for _, of := range s.marks {
		if v := of[r.attribute]; v.IsValid() {
			return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: r.attribute, value: v, from: Fixed})
		}
	}
	return false
}

// suitable returns the number of elements of a map that a job can get: those with the requested
// attributes, and for a start now the free ones among them. The number is unlimited if all elements
// of the map are the same, because then it suffices to count them.
func (m *matcher) suitable(q *query, p Place, id AttributeID) float64 {
	l := m.model.layerAt(p)
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.attribute == id })
	if i < 0 || l.settings[i].marks == nil || !q.category.restricts(l, &l.settings[i]) {
		return math.Inf(1)
	}
	s := &l.settings[i]
	var used []bool
	if !m.empty && (m.plan == nil || q.start <= m.now) {
		used = m.elements[resource{place: p, attribute: id}]
	}
	n := 0.0
	for i := range s.ids {
		if (i >= len(used) || !used[i]) && q.category.suits(l, s, i) {
			n++
		}
	}
	return n
}

// restricts reports whether a job requests attributes of the elements of a map.
func (c *Category) restricts(l *layer, s *setting) bool {
	return slices.ContainsFunc(c.hard, func(r request) bool { return l.marked(r.attribute) == s })
}

// LacksElements explains why no host of the cluster can ever give a job the elements that it requests
// of a map, and lists the attributes that exist. It is empty if a host can.
func (m *Model) LacksElements(c *Category) string {
	kinds := map[string]bool{}
	asked := false
	places := []Place{AtGlobal()}
	for id := range m.hosts {
		places = append(places, AtHost(HostID(id)))
	}
	for _, p := range places {
		l := m.layerAt(p)
		for i := range l.settings {
			s := &l.settings[i]
			if s.marks == nil || !c.restricts(l, s) {
				continue
			}
			asked = true
			want := 1.0
			if r := c.hardRequest(s.attribute); r != nil {
				want = max(want, r.amount)
			}
			for at := range s.ids {
				if c.suits(l, s, at) {
					want--
				}
				kinds[m.describe(s.marks[at])] = true
			}
			if want <= 0 {
				return ""
			}
		}
	}
	if !asked {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(kinds)), "; ")
}

// describe names the attributes of an element: "gpu_mem=80.000G gpu_type=NVIDIA-H100".
func (m *Model) describe(of marks) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(of)) {
		list = append(list, m.attributes[id].Name+"="+of[id].String())
	}
	return strings.Join(list, " ")
}
