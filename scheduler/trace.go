package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/quota"
)

// trace collects the reasons of a walk: why a job cannot run, place by place, in the order of their
// discovery. If a cluster queue, a host or a quota is the cause, it has one reason, and the places
// that it rules out are not checked again. A nil trace belongs to a query without reasons; methods
// that only record do nothing for it.
type trace struct {
	reasons []Reason

	queues  []bool
	hosts   []bool
	barred  []bool // hosts that are ruled out regardless of free resources
	sorted  []bool // hosts that a quota rules out
	perHost int    // slots that a parallel job needs on each host that it uses
	// quotas holds the slots that quotas allow to a parallel job; nil until it is needed.
	quotas *slotQuotas
	// found holds the grants that the search found for a parallel job, and enough tells whether they
	// suffice.
	found  []Grant
	enough bool
	// atEnd holds the places of a parallel job that gets a reservation after the end of everything in
	// the plan, on the hosts checked so far.
	atEnd *placing
}

func newTrace(m *Model) *trace {
	t := &trace{}
	t.lookAgain(m)
	return t
}

// lookAgain clears the ruled-out places, because they may differ for another parallel environment.
func (t *trace) lookAgain(m *Model) {
	n := len(m.hosts)
	t.queues, t.hosts, t.barred, t.sorted = make([]bool, len(m.queues)), make([]bool, n), make([]bool, n), make([]bool, n)
	t.quotas, t.atEnd = nil, nil
}

// said returns the number of reasons so far.
func (t *trace) said() int {
	if t == nil {
		return 0
	}
	return len(t.reasons)
}

func (t *trace) add(r Reason) { t.reasons = append(t.reasons, r) }

// skips reports whether an instance need not be checked.
func (t *trace) skips(i *instanceModel) bool {
	return t != nil && (t.queues[i.queue] || t.hosts[i.host] || t.sorted[i.host])
}

// rulesOut reports whether a quota rules a host out.
func (t *trace) rulesOut(id HostID) bool { return t != nil && t.sorted[id] }

func (t *trace) skipQueue(id QueueID) {
	if t != nil {
		t.queues[id] = true
	}
}

func (t *trace) skipHost(id HostID) {
	if t != nil {
		t.hosts[id] = true
	}
}

// bar rules a host out regardless of free resources.
func (t *trace) bar(id HostID) {
	if t != nil {
		t.hosts[id], t.barred[id] = true, true
	}
}

// sortedOut holds the places that quotas rule out during one search, although the job might fit there. A nil
// sortedOut rules out nothing.
type sortedOut struct{ queues, hosts []bool }

func (m *Model) newSortedOut() *sortedOut {
	return &sortedOut{queues: make([]bool, len(m.queues)), hosts: make([]bool, len(m.hosts))}
}

func (s *sortedOut) skips(i *instanceModel) bool {
	return s != nil && (s.queues[i.queue] || s.hosts[i.host])
}

// quotasOnce returns the reasons without repetitions of quotas: one refuses many places.
func (t *trace) quotasOnce() []Reason {
	if t == nil {
		return nil
	}
	said := map[string]bool{}
	return slices.DeleteFunc(t.reasons, func(r Reason) bool {
		if r.kind != quotaExceeded {
			return false
		}
		text := r.Text()
		again := said[text]
		said[text] = true
		return again
	})
}

// exceeds returns the answer for an instance at which a serial job does not fit into a quota. The
// quota may rule out further places: for the decision, all places where the job does not fit for
// the same reason; for the reasons, the places that Grid Engine does not check any more.
func (q *query) exceeds(f *quota.Failure, i *instanceModel) answer {
	everywhere := f.Everywhere
	switch t := q.trace; {
	case t != nil:
		q.because(exceeded(f))
		everywhere = f.SortOut(int32(i.queue), int32(i.host), t.queues, t.sorted)
	case q.sorted != nil && f.SortsOutMore():
		everywhere = f.SortOut(int32(i.queue), int32(i.host), q.sorted.queues, q.sorted.hosts)
	}
	if everywhere {
		return fitsNowhere
	}
	return refusedThere
}
