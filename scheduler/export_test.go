package scheduler

import "github.com/execd-project/execd/scheduler/diagram"

// Categories returns the number of categories of a model, including those that no job uses any
// more, and the number of indexes that it has given to them.
func (m *Model) Categories() (known, indexes int) { return len(m.categories.known), m.categories.next }

// Numbered are the numbers of the jobs that wait, as ticket policies go through them.
func (s *State) Numbered() []uint32 {
	var ids []uint32
	for _, n := range s.pending.ids.all(&s.pending) {
		ids = append(ids, n.job.ID)
	}
	return ids
}

// TooFew reports for the tries of a run whether they do without places as there are not so
// many free slots: to start a task, to reserve for it, and to say why it waits.
func (s *State) TooFew(now int64, slots int) (start, reserve, explain bool) {
	r := s.newRun(now)
	r.prepareOrder(append(r.conditions(), r.notFull)...)
	tooFew := func(q query) bool { return r.tooFew(&q, slots) }
	return tooFew(query{mode: starting}), tooFew(query{mode: later}), tooFew(query{mode: starting, trace: &trace{}})
}

// LookBack looks back in time for the places of a parallel job in each of its environments, once as
// reservations do, and once by a search for places at each time. It returns the earliest times.
func (s *State) LookBack(j *Job, now int64) (got, want []int64) {
	look := func(pe PEID, possible func(*run, *query) func(int64) bool) int64 {
		r := s.newRun(now)
		r.plan = newPlan()
		r.planAhead()
		r.prepareOrder(append(r.conditions(), r.notFull)...)
		earliest, at := diagram.Forever, possible(r, new(r.ask(j, later)))
		for t := range diagram.Events(now, r.plan.all()) {
			if t == diagram.Forever {
				continue
			}
			if !at(t) {
				break
			}
			earliest = t
		}
		return earliest
	}
	for _, pe := range j.Category.pes {
		got = append(got, look(pe, func(r *run, q *query) func(int64) bool {
			if l := r.newLookBack(q, pe); l != nil {
				return l.possible
			}
			return func(int64) bool { return false }
		}))
		want = append(want, look(pe, func(r *run, q *query) func(int64) bool {
			return func(t int64) bool {
				few := q.in(later | fewest)
				few.start = t
				_, ok := r.tryPE(&few, pe)
				r.forgetSorting()
				return ok
			}
		}))
	}
	return got, want
}

// TryRange searches the range of slots of a parallel job that starts, as if its category had several jobs. It
// returns how many numbers it placed, and the number found.
func (s *State) TryRange(j *Job, now int64) (tried, found int) {
	r := s.newRun(now)
	r.prepareOrder(append(r.conditions(), r.notFull)...)
	q, pe := r.ask(j, starting), j.Category.pes[0]
	in, _ := r.roomIn(&q, pe)
	search := r.slotRange(j.Category, pe)
	search.useless = r.uselessFor(j.Category, pe)
	a, _ := r.largest(&q, pe, in, &search)
	return search.tried, a.slots
}

// BookedAt returns the amount of a consumable that a job of a category books on a host for each
// slot.
func BookedAt(c *Category, h HostID, name string) (each float64) {
	_ = c.uses(AtHost(h), func(u use) error {
		if c.model.attributes[u.attribute].Name == name {
			each = u.each
		}
		return nil
	})
	return each
}
