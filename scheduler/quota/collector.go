package quota

// Collector counts the slots that quotas leave to a parallel job while it is put
// together, place by place. What was taken can be undone, as where a host turns out
// to have less than the job needs there. The zero Collector is to be Reset. It can be
// used for one job after the other, and allocates no more then.
type Collector struct {
	demand *Demand
	usage  *Usage
	values Values
	order  []int32         // in which the sets are asked
	left   map[Counter]int // slots
	taken  []taken
	// met are the rules that a place has been looked at for, by their keys: whether they
	// are spoiled.
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

// AskLike has the sets asked in the order in which a usage has them, where what it
// counts does not matter.
func (c *Collector) AskLike(u *Usage) {
	if u != nil {
		c.order = u.order
	}
}

// set returns the nth set to ask.
func (c *Collector) set(n int) int32 {
	if c.order != nil {
		return c.order[n]
	}
	return int32(n)
}

// Spoil looks at a place that does not have what the job requests of a queue's own
// parameters. The original compares these with each rule, too, and keeps for the rule
// what came of it first: if that is such a place, the job gets no slots under the rule,
// wherever it goes on to look (tested).
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
// What a job takes once, of consumables of the kind JOB, is needed where its master
// task is to run. It is looked at if master is set.
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

// Mark returns a moment to which Undo goes back.
func (c *Collector) Mark() int { return len(c.taken) }

// Undo gives back what was taken since a mark.
func (c *Collector) Undo(mark int) {
	for i := len(c.taken) - 1; i >= mark; i-- {
		c.left[c.taken[i].counter] += c.taken[i].slots
	}
	c.taken = c.taken[:min(mark, len(c.taken))]
}
