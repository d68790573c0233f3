package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Usage is the usage of running jobs under the rules of Sets. It only stores counters with usage.
type Usage struct {
	sets     *Sets
	at       map[Counter]int32 // in counters
	counters []counter
	free     []int32 // unused indexes of counters
	order    []int32 // in which the sets are checked
	changed  []uint64
	clock    uint64 // of changes
}

// counter is the usage of a limit.
type counter struct {
	id     Counter
	since  uint64 // time of its creation; orders the rows of qquota
	amount value.Amount
	// For a complex with the relation EXCL: the slots of jobs that requested it, and of other jobs.
	exclusive, shared int64
}

// nothing is the counter without usage.
var nothing counter

// NewUsage returns the usage of no jobs.
func (s *Sets) NewUsage() *Usage {
	u := &Usage{sets: s, at: map[Counter]int32{}, changed: make([]uint64, len(s.sets)), order: make([]int32, len(s.sets))}
	for i := range u.order {
		u.order[i] = int32(i)
	}
	return u
}

// Clone returns a copy for hypothetical changes.
func (u *Usage) Clone() *Usage {
	c := *u
	c.at, c.counters, c.free = maps.Clone(u.at), slices.Clone(u.counters), slices.Clone(u.free)
	c.order, c.changed = slices.Clone(u.order), slices.Clone(u.changed)
	return &c
}

// Settle moves the sets whose usage has changed most recently to the end. Their order decides which
// of several exhausted limits is shown as the reason. It equals Grid Engine's if Settle is called
// once before each scheduling run.
func (u *Usage) Settle() {
	slices.SortStableFunc(u.order, func(a, b int32) int {
		switch {
		case u.changed[a] < u.changed[b]:
			return -1
		case u.changed[a] > u.changed[b]:
			return 1
		}
		return 0
	})
}

// counter returns the usage of a counter. Do not change the result.
func (u *Usage) counter(id Counter) *counter {
	if u == nil || len(u.at) == 0 {
		return &nothing
	}
	if i, ok := u.at[id]; ok {
		return &u.counters[i]
	}
	return &nothing
}

// IsEmpty reports whether there is no usage.
func (u *Usage) IsEmpty() bool { return len(u.at) == 0 }

// Used returns the usage of a counter. For a complex with the relation EXCL, used is the number of
// slots of the jobs that requested it, and shared that of all other jobs.
func (u *Usage) Used(id Counter) (used float64, shared int64) {
	c := u.counter(id)
	if c.exclusive != 0 || c.shared != 0 {
		return float64(c.exclusive), c.shared
	}
	return c.amount.Float(), 0
}

// Grant are slots that a job has got in a queue on a host.
type Grant struct {
	Queue, Host int32
	Slots       int
}

// Debit adds the usage of a job at its granted places. The first grant is the master task's. Debit
// does not check limits, because jobs may have started before a rule existed, so limits may be
// exceeded. If a grant is invalid, or a sum is too large, it returns an error and changes nothing.
func (u *Usage) Debit(d *Demand, grants []Grant) error { return u.book(d, grants, 1, false) }

// DebitSlaves debits slots of a job whose master task is elsewhere, as Debit does, but without the
// amounts that the job takes once.
func (u *Usage) DebitSlaves(d *Demand, grants []Grant) error { return u.book(d, grants, 1, true) }

// Credit undoes a Debit with the same arguments. If it detects that there was no such Debit, it
// returns an error and changes nothing.
func (u *Usage) Credit(d *Demand, grants []Grant) error { return u.book(d, grants, -1, false) }

// CreditSlaves undoes a DebitSlaves with the same arguments.
func (u *Usage) CreditSlaves(d *Demand, grants []Grant) error { return u.book(d, grants, -1, true) }

var errNotDebited = errors.New("it has not been debited")

func (u *Usage) book(d *Demand, grants []Grant, sign int, slaves bool) error {
	verb := "debit"
	if sign < 0 {
		verb = "credit"
	}
	if d.applicable.sets != u.sets {
		return fmt.Errorf("cannot %s a job: its rules are not those that the usage is for", verb)
	}
	for _, g := range grants {
		if g.Slots < 1 || g.Queue < 0 || int(g.Queue) >= len(u.sets.queues) || g.Host < 0 || int(g.Host) >= len(u.sets.hosts) {
			return fmt.Errorf("cannot %s %d slots of queue %d on host %d: expected at least 1, and indexes below %d and %d",
				verb, g.Slots, g.Queue, g.Host, len(u.sets.queues), len(u.sets.hosts))
		}
	}
	done, err := u.apply(d, grants, sign, slaves, -1)
	if err != nil {
		if _, undo := u.apply(d, grants, -sign, slaves, done); undo != nil {
			err = errors.Join(err, undo)
		}
		return fmt.Errorf("cannot %s a job of %q: %w", verb, d.applicable.consumer.User, err)
	}
	return nil
}

// apply adds the usage of the job, multiplied by sign. It stops after most additions, unless most
// is negative, and returns their number.
func (u *Usage) apply(d *Demand, grants []Grant, sign int, slaves bool, most int) (done int, err error) {
	a := d.applicable
	for n, g := range grants {
		for set := range a.chains {
			i := a.find(int32(set), g.Queue, g.Host)
			if i < 0 {
				continue
			}
			place := Counter(a.sets.place(a.candidates[i].rule, g.Queue, g.Host))
			for j := range d.wants[i] {
				w := &d.wants[i][j]
				slots := g.Slots
				switch {
				case w.kind > beside || w.kind == perJob && (n > 0 || slaves):
					continue
				case w.kind == perJob:
					slots = 1
				}
				if done == most {
					return done, nil
				}
				if err := u.add(w, w.counter|place, sign*slots); err != nil {
					return done, err
				}
				done++
				u.clock++
				u.changed[set] = u.clock
			}
		}
	}
	return done, nil
}

// add adds to a counter, which exists only while it has usage.
func (u *Usage) add(w *want, id Counter, slots int) error {
	i, known := u.at[id]
	c := counter{id: id, since: u.clock}
	if known {
		c = u.counters[i]
	}
	switch w.kind {
	case alone:
		c.exclusive += int64(slots)
	case beside:
		c.shared += int64(slots)
	default:
		if err := c.amount.Add(slots, w.amount); err != nil {
			return err
		}
	}
	switch {
	case c.exclusive < 0 || c.shared < 0 || c.amount.Float() < 0:
		return errNotDebited
	case c.exclusive == 0 && c.shared == 0 && c.amount.IsZero():
		if known {
			delete(u.at, id)
			u.counters[i] = counter{}
			u.free = append(u.free, i)
		}
		return nil
	case known:
		u.counters[i] = c
		return nil
	}
	if n := len(u.free); n > 0 {
		i, u.free = u.free[n-1], u.free[:n-1]
	} else {
		i = int32(len(u.counters))
		u.counters = append(u.counters, counter{})
	}
	u.counters[i], u.at[id] = c, i
	return nil
}
