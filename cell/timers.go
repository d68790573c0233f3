package cell

import "container/heap"

// timerKind is the kind of a timed event.
type timerKind uint8

const (
	startTime      timerKind = iota // of a job (-a)
	userExpires                     // an automatic user object
	reservationDue                  // an advance reservation begins or ends
	hostGivenUp                     // reschedule_unknown
	backoffOver                     // of a task
)

// timer is a timed event. It fires only if it still applies.
type timer struct {
	at   int64
	kind timerKind
	id   uint32
	name string
}

// timers is a heap with the earliest timer at the top.
type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	a, b := t[i], t[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.kind != b.kind:
		return a.kind < b.kind
	case a.id != b.id:
		return a.id < b.id
	}
	return a.name < b.name
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

func (t *timers) add(x timer) { heap.Push(t, x) }

// tick fires the timers that are due.
func (c *Cell) tick(now int64) {
	if now < c.now {
		now = c.now
	}
	c.now, c.work = now, work{}
	c.tidy()
	for len(c.timers) > 0 && c.timers[0].at <= now {
		t := heap.Pop(&c.timers).(timer)
		switch t.kind {
		case startTime, backoffOver:
			if j := c.jobs[t.id]; j != nil {
				c.refresh(j)
			}
		case userExpires:
			c.expireUser(t.name)
		case reservationDue:
			c.reservationDue(t.id)
		case hostGivenUp:
			c.giveUpHost(t.name)
		}
	}
	c.turnCalendars(now)
}

// applies reports whether the object of a timer still exists and has not moved its time.
func (c *Cell) applies(t timer) bool {
	switch t.kind {
	case startTime:
		j := c.jobs[t.id]
		return j != nil && j.Start == t.at
	case backoffOver:
		j := c.jobs[t.id]
		return j != nil && j.backoffEnds(t.at)
	case userExpires:
		return c.policy.automatic[t.name].due == t.at
	case reservationDue:
		r := c.reservations.find(t.id)
		return r != nil && (r.Start == t.at || r.End == t.at && !r.Deleted)
	case hostGivenUp:
		at, lost := c.lost[t.name]
		return lost && at == t.at
	}
	return true
}

// Tick fires all timed events up to now: start times, calendars, advance reservations. All other
// methods that take a time do so, too.
func (c *Cell) Tick(now int64) *Answer {
	c.tick(now)
	return c.done(&Answer{})
}

// NextEvent returns the time of the next timed event: a start time of a job, a change of a
// calendar, the start or end of an advance reservation, a check of a suspend threshold. ok is false
// if there is none. Decisions about pending jobs depend on time as well, so a scheduling run is due
// at each schedule_interval regardless.
func (c *Cell) NextEvent(now int64) (at int64, ok bool) {
	consider := func(t int64) {
		if t > now && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for len(c.timers) > 0 {
		if !c.applies(c.timers[0]) {
			heap.Pop(&c.timers)
			continue
		}
		consider(max(c.timers[0].at, now+1))
		break
	}
	for _, cal := range c.calendars {
		if cal.turns {
			consider(cal.next)
		}
	}
	for i := range c.instances {
		if t, due := c.thresholdDue(i); due {
			consider(max(t, now+1))
		}
	}
	return at, ok
}
