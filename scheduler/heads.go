package scheduler

import (
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// head is what a run compares: a job, or the first job of a line.
type head struct {
	job      *Job
	tasks    rangelist.List // of the job, not yet started
	left     int            // tasks that may start
	tickets  []tickets.Tickets
	priority priority.Priority
	rest     []*Job // of the line
}

// current are the tickets of the first task. Tasks beyond max_pending_tasks_per_job have
// those of the last one that was computed.
func (h *head) current() tickets.Tickets {
	if len(h.tickets) == 0 {
		return tickets.Tickets{}
	}
	return h.tickets[0]
}

// heads is a heap: the head that is dispatched first is at the top. What decides is kept
// together, so that the comparison of a hundred thousand of them stays in the cache.
type heads struct {
	list []head
	heap []headKey
}

type headKey struct {
	priority  float64
	submitted int64
	id        uint32
	index     int32 // in the list
}

// arity is the number of children of a node: wide heaps are flat.
const arity = 4

func (h *heads) add(x head) {
	h.heap = append(h.heap, headKey{index: int32(len(h.list))})
	h.list = append(h.list, x)
	h.refresh(len(h.heap) - 1)
}

// refresh brings the key of a node up to date.
func (h *heads) refresh(i int) {
	k := &h.heap[i]
	x := &h.list[k.index]
	k.priority, k.submitted, k.id = x.priority.Priority, x.job.Submitted, x.job.ID
}

func (h *heads) init() {
	for i := len(h.heap)/arity + 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heads) empty() bool { return len(h.heap) == 0 }
func (h *heads) top() *head  { return &h.list[h.heap[0].index] }

// fix sorts the top in anew, after its key has changed.
func (h *heads) fix() {
	h.refresh(0)
	h.down(0)
}

// pop takes the top away.
func (h *heads) pop() {
	last := len(h.heap) - 1
	h.heap[0] = h.heap[last]
	h.heap = h.heap[:last]
	h.down(0)
}

// before is the order of dispatch (sge_priority(5)): the higher priority, the earlier
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

func (h *heads) down(i int) {
	for {
		best := i
		for c := arity*i + 1; c <= arity*i+arity && c < len(h.heap); c++ {
			if h.heap[c].before(&h.heap[best]) {
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
