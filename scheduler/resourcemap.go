package scheduler

import (
	"maps"
	"math"
	"slices"
)

// usedElements says which elements of resource maps are in use: by place and attribute, then by the position
// of the element in the map.
type usedElements map[resource][]bool

// named returns the elements of the resource map of a place (complex(5), RSMAP); nil if the attribute is
// not a resource map there.
func (m *Model) named(p Place, a AttributeID) []string {
	l := m.layerAt(p)
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.attribute == a })
	if i < 0 {
		return nil
	}
	return l.settings[i].ids
}

func (t usedElements) usedIDs(m *Model, p Place, a AttributeID) []bool {
	key := resource{place: p, attribute: a}
	used := t[key]
	if n := len(m.named(p, a)); len(used) != n {
		used = make([]bool, n)
		t[key] = used
	}
	return used
}

// surplus counts for an element how many more tasks hold it than the map allows: the map was changed
// while they ran.
type surplus map[surplusKey]int

type surplusKey struct {
	resource
	id string
}

// bookElements marks the elements that a task got as used, or frees them. An element that a task
// holds and that was removed from the map cannot be given to another task.
func (s *State) bookElements(grants []Grant, sign int) {
	for _, g := range grants {
		for _, t := range g.Elements {
			at := resource{place: t.At, attribute: t.Attribute}
			used, names := s.elements.usedIDs(s.model, t.At, t.Attribute), s.model.named(t.At, t.Attribute)
			for _, id := range t.IDs {
				i := -1
				key := surplusKey{at, id}
				if sign > 0 || s.surplus[key] == 0 {
					for k := range names {
						if names[k] == id && used[k] == (sign < 0) {
							i = k
							break
						}
					}
				}
				if i >= 0 {
					used[i] = sign > 0
				} else if s.surplus[key] += sign; s.surplus[key] <= 0 {
					delete(s.surplus, key)
				}
			}
		}
	}
}

// counted returns the amount that a task takes of a consumable at a place, as a number of times an
// amount. Elements of a resource map that the task holds and that the map no longer has do not
// count: a GPU that has disappeared with its task must not block another one.
func (m *Model) counted(g *Grant, p Place, u *use, n int) (int, float64) {
	if !m.attributes[u.attribute].resourceMap {
		return n, u.each
	}
	names := m.named(p, u.attribute)
	lost := 0
	for _, t := range g.Elements {
		if t.At == p && t.Attribute == u.attribute {
			for _, id := range t.IDs {
				if !slices.Contains(names, id) {
					lost++
				}
			}
		}
	}
	if lost == 0 {
		return n, u.each
	}
	return max(int(math.Round(float64(n)*u.each))-lost, 0), 1
}

// giveElements chooses the elements of resource maps that a task gets at its places: the first free
// ones, in the order of the map, and of devices those near the cores of the task. Elements per slot are
// given for all slots of the grant, and elements per job to the master task.
func (s *State) giveElements(c *Category, grants []Grant) {
	if !s.model.resourceMaps {
		return
	}
	for p, part := range s.model.portions(grants, Away{}) {
		s.giveAt(c, grants, p, part)
	}
	s.bookElements(grants, -1)
}

func (s *State) giveAt(c *Category, grants []Grant, p Place, part portion) {
	g := &grants[part.grant]
	_ = c.uses(p, func(u use) error {
		names := s.model.named(p, u.attribute)
		n := u.times(part)
		if len(names) == 0 || n == 0 {
			return nil
		}
		want := int(math.Round(float64(n) * u.each))
		used := s.elements.usedIDs(s.model, p, u.attribute)
		given := MapElements{Attribute: u.attribute, At: p}
		l := s.model.layerAt(p)
		of := &l.settings[slices.IndexFunc(l.settings, func(s setting) bool { return s.attribute == u.attribute })]
		var free []int
		for i := range names {
			if !used[i] && c.suits(l, of, i) {
				free = append(free, i)
			}
		}
		for _, i := range s.nearest(c, grants, p, u.attribute, names, free, want) {
			used[i] = true
			given.IDs = append(given.IDs, names[i])
		}
		if len(given.IDs) > 0 {
			g.Elements = append(g.Elements, given)
		}
		return nil
	})
}

// Names returns the elements of a grant by the names of their complexes, or nil if there are none:
// first the queue instance's, then the host's and the cluster's.
func (m *Model) Names(g *Grant) map[string][]string {
	var names map[string][]string
	for _, t := range g.Elements {
		if names == nil {
			names = map[string][]string{}
		}
		name := m.attributes[t.Attribute].Name
		names[name] = append(names[name], t.IDs...)
	}
	return names
}

// SetNames returns the reverse of Names: it gives elements to a task by the names or shortcuts of their
// complexes, grant by grant. If a complex is a resource map at several places, each place gets as
// many of its elements as the task takes there. Surplus elements are given at the host, which Admit
// refuses. SetNames returns the names of complexes that do not exist, sorted.
func (m *Model) SetNames(t *Running, names []map[string][]string) (unknown []string) {
	left := make([]map[AttributeID][]string, len(t.Grants))
	for i := range t.Grants {
		t.Grants[i].Elements, left[i] = nil, map[AttributeID][]string{}
		if i >= len(names) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(names[i])) {
			if id, ok := m.attributeOf[name]; ok {
				left[i][id] = append(left[i][id], names[i][name]...)
			} else {
				unknown = append(unknown, name)
			}
		}
	}
	for p, part := range m.portions(t.Grants, t.Away) {
		if p.layer == atGlobal && t.Away.Master {
			continue
		}
		_ = t.Job.Category.uses(p, func(u use) error {
			want := int(math.Round(float64(u.times(part)) * u.each))
			if ids := m.pickElements(p, &u, left[part.grant], want); len(ids) > 0 {
				g := &t.Grants[part.grant]
				g.Elements = append(g.Elements, MapElements{Attribute: u.attribute, At: p, IDs: ids})
			}
			return nil
		})
	}
	for i := range left {
		g := &t.Grants[i]
		for _, id := range slices.Sorted(maps.Keys(left[i])) {
			if len(left[i][id]) > 0 {
				g.Elements = append(g.Elements, MapElements{Attribute: id, At: AtHost(m.instances[g.Instance].host), IDs: left[i][id]})
			}
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// pickElements takes the elements of a place's map out of a list.
func (m *Model) pickElements(p Place, u *use, from map[AttributeID][]string, want int) (ids []string) {
	names := m.named(p, u.attribute)
	from[u.attribute] = slices.DeleteFunc(from[u.attribute], func(id string) bool {
		take := len(ids) < want && slices.Contains(names, id)
		if take {
			ids = append(ids, id)
		}
		return take
	})
	return ids
}
