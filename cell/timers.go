package cell

import "container/heap"

// timerKind is what happens by itself at a time.
type timerKind uint8

const (
	startTime      timerKind = iota // of a job (-a)
	userExpires                     // an automatic user object
	reservationDue                  // an advance reservation begins or ends
	hostGivenUp                     // reschedule_unknown
	backoffOver                     // of a task
)

// timer is something that will happen, if it still applies then.
type timer struct {
	at   int64
	kind timerKind
	id   uint32
	name string
}

// timers is a heap, what is due first at the top.
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

// Push and Pop are for package heap.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop returns the opposite of Push.
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

func (t *timers) add(x timer) { heap.Push(t, x) }

// tick lets happen what has become due.
func (c *Cell) tick(now int64) {
	if now < c.now {
		now = c.now
	}
	c.now = now
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

// applies reports whether a timer is not about what is gone or comes at another time now.
func (c *Cell) applies(t timer) bool {
	switch t.kind {
	case startTime:
		j := c.jobs[t.id]
		return j != nil && j.Start == t.at
	case backoffOver:
		j := c.jobs[t.id]
		return j != nil && j.backoffEnds(t.at)
	case userExpires:
		return c.policy.due[t.name] == t.at
	case reservationDue:
		r := c.reservations.find(t.id)
		return r != nil && (r.Start == t.at || r.End == t.at && !r.Deleted)
	case hostGivenUp:
		at, lost := c.lost[t.name]
		return lost && at == t.at
	}
	return true
}

// Tick lets happen what happens by itself until a time: start times, calendars, advance
// reservations. All other methods do so, too.
func (c *Cell) Tick(now int64) *Answer {
	c.tick(now)
	return c.done(&Answer{})
}

// NextEvent returns when something happens next by itself: a job's start time is reached, a
// calendar turns, an advance reservation begins or ends, a suspend threshold is looked at
// again. ok is false where nothing will. A cell with waiting jobs may decide otherwise as
// time goes by, so a scheduling run is due at each schedule_interval regardless.
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
	for i := range c.places {
		if t, due := c.thresholdDue(i); due {
			consider(max(t, now+1))
		}
	}
	return at, ok
}
