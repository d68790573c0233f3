package diagram

import (
	"iter"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// Forever is the end of what has no end, and later than every other time. A time
// is in seconds since 1970, and none is before that.
//
// It does not come, unlike the 2^32-1 that the original has in its place: nothing is
// reserved for it.
const Forever int64 = math.MaxInt64

// End returns the time at which something ends that lasts for so many seconds. It is
// Forever if there is no such time.
func End(start, seconds int64) int64 {
	if seconds > Forever-max(start, 0) {
		return Forever
	}
	return start + seconds
}

// Booking is that so many slots have as much each from a time on and until
// another one, at which they no longer do. One that is over before it begins is
// nothing.
type Booking struct {
	From, Until int64
	Slots       int
	Each        float64
}

// Diagram is how much is in use over time. The zero Diagram is that nothing ever is,
// and so is a nil one, which may be asked and not changed.
//
// Amounts are exact (see value.Amount): what was added and taken away has left no
// trace, in whatever order.
type Diagram struct {
	// steps are in the order of time. Before the first one nothing is in use. The
	// amounts of two in a row differ, and that of the first is not nothing: so there
	// is one way only to write down what is in use.
	steps []step
	since int64 // what was before is forgotten
}

// step is how much is in use until the next one.
type step struct {
	at   int64
	used value.Amount
}

// Add books. The diagram stays as it is after an error: see value.Amount.Add.
func (d *Diagram) Add(b Booking) error {
	b.From = max(b.From, d.since)
	if b.From >= b.Until || b.Slots == 0 || b.Each == 0 {
		return nil
	}
	first := d.split(b.From)
	end := d.split(b.Until)
	var err error
	for i := first; i < end; i++ {
		if err = d.steps[i].used.Add(b.Slots, b.Each); err != nil {
			for i--; i >= first; i-- {
				_ = d.steps[i].used.Sub(b.Slots, b.Each) // Back to what was there is exact.
			}
			break
		}
	}
	// In between, differences have stayed as they were.
	d.merge(end)
	d.merge(first)
	return err
}

// Remove takes back a booking that was added. The diagram stays as it is after an
// error: see value.Amount.Add.
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

// split sees to it that there is a step at a time, and returns its index. Forever
// has none, and is behind the last.
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

// Max returns the most that is in use at a time and from then on until another one. Of
// an empty period it is what is in use when it begins.
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

// MaxSince is Max, and since when it is so: any period that is as long, begins earlier, and not
// before since, has the same.
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

// Fits reports whether a booking can be added such that no more than the capacity is
// in use as long as it lasts. It is asked about the moment at which it begins even if
// it does not last.
func (d *Diagram) Fits(capacity float64, b Booking) bool {
	return d.Max(b.From, b.Until).Fits(capacity, b.Slots, b.Each)
}

// Earliest returns the time from which on so many slots can have as much each out of a
// capacity, for as long as they like: the last time at which what is in use falls
// low enough, or now if it falls no more. It is Forever if there is none.
//
// An earlier gap that would be long enough is not looked for, as in the original.
// What fits into gaps starts in them when they are there (Fits).
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

// after returns the steps behind an index.
func (d *Diagram) after(i int) []step {
	if d == nil {
		return nil
	}
	return d.steps[max(i+1, 0):]
}

// Forget forgets what was before a time. What began before and goes on is now in
// use from then on; it can be taken back as it was added.
func (d *Diagram) Forget(before int64) {
	if before <= d.since {
		return
	}
	d.since = before
	i := d.covering(before)
	if i < 0 {
		return
	}
	d.steps = slices.Delete(d.steps, 0, i)
	d.steps[0].at = before
	d.merge(0)
}

// IsEmpty reports whether nothing is ever in use.
func (d *Diagram) IsEmpty() bool { return d == nil || len(d.steps) == 0 }

// Clone returns a diagram that can be changed without this one.
func (d *Diagram) Clone() *Diagram {
	if d == nil {
		return &Diagram{}
	}
	return &Diagram{steps: slices.Clone(d.steps), since: d.since}
}

// Steps returns the times at which what is in use changes, in their order, and what is
// in use from then on. Before the first nothing is.
func (d *Diagram) Steps() iter.Seq2[int64, value.Amount] {
	return func(yield func(int64, value.Amount) bool) {
		for _, s := range d.after(-1) {
			if !yield(s.at, s.used) {
				return
			}
		}
	}
}
