package scheduler

import (
	"math"
	"slices"
)

// things are the named things of resource maps that are in use, by place and attribute,
// then by their position in the map.
type things map[resource][]bool

// named are the things of a resource map of a place (complex(5), RSMAP), nil where the
// attribute is none there.
func (m *Model) named(p Place, a AttributeID) []string {
	l := m.layerAt(p)
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.attribute == a })
	if i < 0 {
		return nil
	}
	return l.settings[i].ids
}

func (t things) of(m *Model, p Place, a AttributeID) []bool {
	key := resource{place: p, attribute: a}
	used := t[key]
	if n := len(m.named(p, a)); len(used) != n {
		used = make([]bool, n)
		t[key] = used
	}
	return used
}

// bookThings marks what a task got, or frees it. A thing that a task holds and that is not
// in the map any more cannot be given to another one.
func (s *State) bookThings(grants []Grant, sign int) {
	for _, g := range grants {
		for _, t := range g.Things {
			used, names := s.things.of(s.model, t.At, t.Attribute), s.model.named(t.At, t.Attribute)
			for _, id := range t.IDs {
				for i := range names {
					if names[i] == id && used[i] == (sign < 0) {
						used[i] = sign > 0
						break
					}
				}
			}
		}
	}
}

// giveThings chooses the things that a task gets of the resource maps of its places: the
// first free ones, in the order of the map. Those of a map that every slot takes from are
// given for all slots of the grant; those that the job takes once, to its master.
func (s *State) giveThings(c *Category, grants []Grant) {
	if !s.model.resourceMaps {
		return
	}
	for p, part := range s.model.portions(grants) {
		s.giveAt(c, &grants[part.grant], p, part)
	}
	s.bookThings(grants, -1)
}

func (s *State) giveAt(c *Category, g *Grant, p Place, part portion) {
	_ = c.uses(p, func(u use) error {
		names := s.model.named(p, u.attribute)
		n := u.times(part)
		if len(names) == 0 || n == 0 {
			return nil
		}
		want := int(math.Round(float64(n) * u.each))
		used := s.things.of(s.model, p, u.attribute)
		given := Thing{Attribute: u.attribute, At: p}
		for i := range names {
			if len(given.IDs) == want {
				break
			}
			if !used[i] {
				used[i] = true
				given.IDs = append(given.IDs, names[i])
			}
		}
		if len(given.IDs) > 0 {
			g.Things = append(g.Things, given)
		}
		return nil
	})
}
