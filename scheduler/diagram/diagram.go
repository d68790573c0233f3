package diagram

import (
	"iter"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Forever is the end of bookings without an end, and later than every other time. Times are Unix
// seconds, and never negative.
//
// Grid Engine uses 2^32-1 instead, which is an actual time. Nothing is reserved for Forever.
const Forever int64 = math.MaxInt64

// End returns start plus seconds, or Forever if that is too large.
func End(start, seconds int64) int64 {
	if seconds > Forever-max(start, 0) {
		return Forever
	}
	return start + seconds
}

// Booking is the use of an amount by each of a number of slots, from a start time until an end
// time, which is not included. A booking that ends before it starts has no effect.
type Booking struct {
	From, Until int64
	Slots       int
	Each        float64
}

// Diagram is the use of a resource over time. The zero Diagram is empty, and so is a nil one, which
// supports queries but no changes.
//
// Amounts are exact (see value.Amount): bookings that were added and removed again, in any order,
// leave no difference.
type Diagram struct {
	// steps are sorted by time. Before the first one nothing is in use. Neighbouring steps differ
	// in their amounts, and the first amount is not zero: so the representation is unique.
	steps []step
}

// step is the amount that is in use until the next step.
type step struct {
	at   int64
	used value.Amount
}

// Add adds a booking. After an error the diagram is unchanged: see value.Amount.Add.
func (d *Diagram) Add(b Booking) error {
	b.From = max(b.From, 0)
	if b.From >= b.Until || b.Slots == 0 || b.Each == 0 {
		return nil
	}
	first := d.split(b.From)
	end := d.split(b.Until)
	var err error
	for i := first; i < end; i++ {
		if err = d.steps[i].used.Add(b.Slots, b.Each); err != nil {
			for i--; i >= first; i-- {
				_ = d.steps[i].used.Sub(b.Slots, b.Each) // Returning to the earlier amount is exact.
			}
			break
		}
	}
	// In between, differences have stayed as they were.
	d.merge(end)
	d.merge(first)
	return err
}

// Remove removes a booking that was added. After an error the diagram is unchanged: see
// value.Amount.Add.
func (d *Diagram) Remove(b Booking) error {
	b.Each = -b.Each
	return d.Add(b)
}

// covering returns the index of the step that holds at a time, or -1 before the first.
func (d *Diagram) covering(at int64) int {
	if d == nil {
		return -1
	}
	low, high := 0, len(d.steps) // the first step that is later
	for low < high {
		if mid := int(uint(low+high) >> 1); d.steps[mid].at <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// split ensures that there is a step at a time, and returns its index. Forever has no step; its
// index is after the last one.
func (d *Diagram) split(at int64) int {
	if at == Forever {
		return len(d.steps)
	}
	i := d.covering(at)
	if i >= 0 && d.steps[i].at == at {
		return i
	}
	s := step{at: at}
	if i >= 0 {
		s.used = d.steps[i].used
	}
	d.steps = slices.Insert(d.steps, i+1, s)
	return i + 1
}

// merge removes a step that is none.
func (d *Diagram) merge(i int) {
	if i == len(d.steps) {
		return
	}
	var before value.Amount
	if i > 0 {
		before = d.steps[i-1].used
	}
	if d.steps[i].used == before {
		d.steps = slices.Delete(d.steps, i, i+1)
	}
}

// Max returns the maximum amount in use from a time until another one, which is not included. For
// an empty period it is the amount at its beginning.
func (d *Diagram) Max(from, until int64) value.Amount {
	var most value.Amount
	i := d.covering(from)
	if i >= 0 {
		most = d.steps[i].used
	}
	for _, s := range d.after(i) {
		if s.at >= until {
			break
		}
		if s.used.Compare(most) > 0 {
			most = s.used
		}
	}
	return most
}

// MaxSince returns the result of Max, and a time since: any period that is as long, begins earlier,
// and not before since, has the same maximum.
func (d *Diagram) MaxSince(from, until int64) (most value.Amount, since int64) {
	i := d.covering(from)
	if i >= 0 {
		most, since = d.steps[i].used, d.steps[i].at
	}
	for _, s := range d.after(i) {
		if s.at >= until {
			break
		}
		if s.used.Compare(most) > 0 {
			most = s.used
			// An earlier period must not end before it.
			if until < Forever {
				since = max(since, s.at-(until-from)+1)
			}
		}
	}
	return most, min(since, from)
}

// Fits reports whether a booking can be added without exceeding the capacity at any time of the
// booking. For a booking without a duration it checks the moment of its start.
func (d *Diagram) Fits(capacity float64, b Booking) bool {
	return d.Max(b.From, b.Until).Fits(capacity, b.Slots, b.Each)
}

// Earliest returns the earliest time from which slots can each use an amount of a capacity without
// a time limit: the last time at which the use falls low enough, or now if it is low enough
// already. It is Forever if there is no such time.
//
// As in Grid Engine, it does not look for earlier gaps. Jobs that fit into a gap start when the gap
// has come (Fits).
func (d *Diagram) Earliest(capacity float64, now int64, slots int, each float64) int64 {
	var nothing value.Amount
	if !nothing.Fits(capacity, slots, each) {
		return Forever
	}
	at := Forever
	for _, s := range slices.Backward(d.after(d.covering(now) - 1)) {
		if !s.used.Fits(capacity, slots, each) {
			return at
		}
		at = s.at
	}
	return now
}

// after returns the steps after an index.
func (d *Diagram) after(i int) []step {
	if d == nil {
		return nil
	}
	return d.steps[max(i+1, 0):]
}

// IsEmpty reports whether nothing is ever in use.
func (d *Diagram) IsEmpty() bool { return d == nil || len(d.steps) == 0 }

// Clone returns a diagram that can be changed without this one.
func (d *Diagram) Clone() *Diagram {
	if d == nil {
		return &Diagram{}
	}
	return &Diagram{steps: slices.Clone(d.steps)}
}

// Steps returns the times at which the use changes, in order, each with the amount in use from then
// on. Before the first one nothing is in use.
func (d *Diagram) Steps() iter.Seq2[int64, value.Amount] {
	return func(yield func(int64, value.Amount) bool) {
		for _, s := range d.after(-1) {
			if !yield(s.at, s.used) {
				return
			}
		}
	}
}
