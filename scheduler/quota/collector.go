package quota

// Collector counts the slots that quotas allow to a parallel job while its places are collected.
// Taken slots can be undone, for example if a host has less than the job needs there. Call Reset
// before the first use. A Collector can be used for one job after another, and then does not
// allocate.
type Collector struct {
	demand *Demand
	usage  *Usage
	values Values
	order  []int32         // in which the sets are checked
	left   map[Counter]int // slots
	taken  []taken
	// met holds the rules that were checked for a place, by their keys, and whether they are
	// spoiled.
	met map[Counter]bool
}

type taken struct {
	counter Counter
	slots   int
}

// Reset begins with a job. u may be nil for an empty cluster; it must not change until
// the next Reset.
func (c *Collector) Reset(d *Demand, u *Usage, v Values) {
	c.demand, c.usage, c.values = d, u, v
	if c.left == nil {
		c.left, c.met = map[Counter]int{}, map[Counter]bool{}
	}
	clear(c.left)
	clear(c.met)
	c.taken, c.order = c.taken[:0], nil
	c.AskLike(u)
}

// AskLike uses the order of the sets in u. It is for cases in which the counts of u do not matter.
func (c *Collector) AskLike(u *Usage) {
	if u != nil {
		c.order = u.order
	}
}

// set returns the nth set to check.
func (c *Collector) set(n int) int32 {
	if c.order != nil {
		return c.order[n]
	}
	return int32(n)
}

// Spoil checks a place whose queue parameters do not satisfy the requests of the job. Grid Engine
// also compares such places with each rule, and keeps the first result for the rule: if that is
// from such a place, the job gets no slots under the rule at any later place (tested).
func (c *Collector) Spoil(queue, host int32) {
	a := c.demand.applicable
	for n := range a.chains {
		i := a.find(c.set(n), queue, host)
		if i < 0 || len(a.candidates[i].rule.limits) == 0 {
			continue
		}
		key := c.demand.key(i, queue, host)
		if _, met := c.met[key]; !met {
			c.met[key] = true
		}
		if c.met[key] {
			return
		}
	}
}

// Left returns the number of further slots at a place, or Unlimited if no rule limits them. If it
// is 0, failure says why.
//
// Consumables of the kind JOB, which a job takes once, are needed at the place of its master task.
// They are checked if master is true.
func (c *Collector) Left(queue, host int32, master bool) (slots int, failure Failure) {
	a := c.demand.applicable
	slots = Unlimited
	for n := range a.chains {
		i := a.find(c.set(n), queue, host)
		if i < 0 || len(a.candidates[i].rule.limits) == 0 {
			continue
		}
		place := Counter(a.sets.place(a.candidates[i].rule, queue, host))
		key := c.demand.key(i, queue, host)
		if c.met[key] {
			return 0, c.demand.spoiled(i, key, queue, host)
		}
		c.met[key] = false
		for j := range c.demand.wants[i] {
			w := &c.demand.wants[i][j]
			if w.kind == perJob && !master {
				continue
			}
			slots = min(slots, c.slotsLeft(w, w.counter|place, host))
			if slots == 0 {
				return 0, c.demand.failure(i, w, place, c.values, queue, host)
			}
		}
	}
	return slots, Failure{}
}

// slotsLeft returns the number of slots that a counter still allows.
func (c *Collector) slotsLeft(w *want, id Counter, host int32) int {
	if w.kind != perSlot {
		return w.room(c.usage.counter(id), c.values, host)
	}
	left, known := c.left[id]
	if !known {
		left = w.room(c.usage.counter(id), c.values, host)
		c.left[id] = left
	}
	return left
}

// Take takes slots at a place. They must not be more than Left says.
func (c *Collector) Take(queue, host int32, slots int) {
	a := c.demand.applicable
	for set := range a.chains {
		i := a.find(int32(set), queue, host)
		if i < 0 {
			continue
		}
		place := Counter(a.sets.place(a.candidates[i].rule, queue, host))
		for j := range c.demand.wants[i] {
			w := &c.demand.wants[i][j]
			if w.kind != perSlot {
				continue
			}
			id := w.counter | place
			c.left[id] = c.slotsLeft(w, id, host) - slots
			c.taken = append(c.taken, taken{id, slots})
		}
	}
}

// Mark returns a state for Undo.
func (c *Collector) Mark() int { return len(c.taken) }

// Undo returns everything taken since a mark.
func (c *Collector) Undo(mark int) {
	for i := len(c.taken) - 1; i >= mark; i-- {
		c.left[c.taken[i].counter] += c.taken[i].slots
	}
	c.taken = c.taken[:min(mark, len(c.taken))]
}
