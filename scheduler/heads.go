package scheduler

import (
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// head is the unit that a run compares: a job, or the first job of a line.
type head struct {
	job      *Job
	tasks    rangelist.List // of the job, not yet started
	left     int            // tasks that may start
	tickets  []tickets.Tickets
	priority priority.Priority
	rest     []*Job // of the line
}

// current returns the tickets of the first task. Tasks beyond max_pending_tasks_per_job have the
// tickets of the last task for which they were computed.
func (h *head) current() tickets.Tickets {
	if len(h.tickets) == 0 {
		return tickets.Tickets{}
	}
	return h.tickets[0]
}

// heads are the jobs in the order of dispatch: a heap for each category of jobs, and a heap of
// these heaps, compared by their first jobs. So a run can drop all jobs of a category at once when
// none of them can start any more. The compared values are stored together, so that comparing a
// hundred thousand jobs stays in the cache; other values are only computed for jobs that reach the
// top.
type heads struct {
	categories [][]headKey // by their index
	heap       []int32     // of categories that have any
	list       []head
	free       []int32 // places in the list
	made       func(index int32) head
}

type headKey struct {
	priority  float64
	submitted int64
	id        uint32
	index     int32 // in the list of made heads; before that, the inverted index of its source
}

// newHeads reuses the memory of earlier heads.
func newHeads(categories [][]headKey) *heads {
	for i := range categories {
		categories[i] = categories[i][:0]
	}
	return &heads{categories: categories}
}

// add adds a head that will be made from index when it is needed. Call init after all calls of add.
func (h *heads) add(category int, k headKey, index int32) {
	for len(h.categories) <= category {
		h.categories = append(h.categories, nil)
	}
	k.index = ^index
	h.categories[category] = append(h.categories[category], k)
}

func (h *heads) init() {
	for category, keys := range h.categories {
		if len(keys) == 0 {
			continue
		}
		h.heap = append(h.heap, int32(category))
		for i := len(keys)/arity + 1; i >= 0; i-- {
			sinkKey(keys, i)
		}
	}
	for i := len(h.heap)/arity + 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heads) empty() bool { return len(h.heap) == 0 }

// category returns the index of the category of the first head.
func (h *heads) category() int { return int(h.heap[0]) }

// top returns the first head. It is valid until top is called again.
func (h *heads) top() *head {
	k := &h.categories[h.heap[0]][0]
	if k.index < 0 {
		x := h.made(^k.index)
		if last := len(h.free) - 1; last >= 0 {
			k.index, h.free = h.free[last], h.free[:last]
			h.list[k.index] = x
		} else {
			k.index = int32(len(h.list))
			h.list = append(h.list, x)
		}
	}
	return &h.list[k.index]
}

// fix moves the top to its new place after it has changed.
func (h *heads) fix() {
	k := &h.categories[h.heap[0]][0]
	x := &h.list[k.index]
	k.priority, k.submitted, k.id = x.priority.Priority, x.job.Submitted, x.job.ID
	h.sink()
}

// pop removes the top.
func (h *heads) pop() {
	keys := &h.categories[h.heap[0]]
	if i := (*keys)[0].index; i >= 0 {
		h.list[i] = head{}
		h.free = append(h.free, i)
	}
	last := len(*keys) - 1
	(*keys)[0] = (*keys)[last]
	if *keys = (*keys)[:last]; last == 0 {
		h.drop()
		return
	}
	h.sink()
}

// drop removes all heads of the category of the first head.
func (h *heads) drop() {
	last := len(h.heap) - 1
	h.heap[0] = h.heap[last]
	h.heap = h.heap[:last]
	h.down(0)
}

// sink moves the top to its new place: within its category, and the category among the others.
func (h *heads) sink() {
	sinkKey(h.categories[h.heap[0]], 0)
	h.down(0)
}

// before returns the order of dispatch (sge_priority(5)): the higher priority, the earlier
// submission, the smaller job id.
func (k *headKey) before(o *headKey) bool {
	switch {
	case k.priority != o.priority:
		return k.priority > o.priority
	case k.submitted != o.submitted:
		return k.submitted < o.submitted
	}
	return k.id < o.id
}

// arity is the number of children of a node: wide heaps are flat.
const arity = 4

// sinkKey moves a key of a heap down to its place.
func sinkKey(keys []headKey, i int) {
	for {
		best := i
		for c := arity*i + 1; c <= arity*i+arity && c < len(keys); c++ {
			if keys[c].before(&keys[best]) {
				best = c
			}
		}
		if best == i {
			return
		}
		keys[i], keys[best] = keys[best], keys[i]
		i = best
	}
}

// down moves a category down to its place.
func (h *heads) down(i int) {
	for {
		best := i
		for c := arity*i + 1; c <= arity*i+arity && c < len(h.heap); c++ {
			if h.categories[h.heap[c]][0].before(&h.categories[h.heap[best]][0]) {
				best = c
			}
		}
		if best == i {
			return
		}
		h.heap[i], h.heap[best] = h.heap[best], h.heap[i]
		i = best
	}
}
