package scheduler

import (
	"cmp"
	"math"
)

// sortHosts brings the order up to date. It is called when instances are about to be tried
// for a job without soft requests, or for a serial one.
//
// A parallel job with soft requests leaves the instances in the order in which it would like
// them (see sortForSoft). The original takes that for good for the jobs behind it until hosts
// change places, unless no job has been tried yet that sorts, or that job has started
// (tested).
func (r *run) sortHosts() {
	switch {
	case r.order.tiers && (r.shuffled || !r.settled):
		r.order.arrange(r.loadOf, nil)
		r.isSorted()
	case r.order.tiers, r.stale, len(r.unsorted) == 0:
	default:
		var moved []InstanceID
		for _, h := range r.unsorted {
			moved = append(moved, r.model.hosts[h].instances...)
		}
		r.order.move(moved, r.loadOf)
		if r.displaced {
			r.order.sortTail()
		}
		r.isSorted()
	}
}

// sortSerial is sortHosts for a serial job.
func (r *run) sortSerial() {
	r.sortHosts()
	r.settled = true
}

// sortForSoft sorts the instances for a parallel job with soft requests in an environment:
// those of cluster queues that are no good for it come last, and of the others those first
// that meet most of its requests.
func (r *run) sortForSoft(q *query, pe PEID) {
	const last = math.MaxInt32 - 1
	c, open := q.category, r.openQueues(q.category, pe)
	r.order.arrange(r.loadOf, func(id InstanceID) int32 {
		if !open[r.model.instances[id].queue] {
			return last
		}
		return int32(r.violations(c, id))
	})
	r.isSorted()
}

// isSorted notes that the order is up to date.
func (r *run) isSorted() { r.unsorted, r.stale, r.displaced = r.unsorted[:0], false, false }

func (r *run) loadOf(id InstanceID) float64 { return r.load[r.model.instances[id].host] }

// forgetSorting is called when a job has been tried. Where a parallel job has been refused
// before any instance was tried, the original takes the order for sorted then, and does not
// look at it again before a task that starts makes hosts change places once more (tested).
// A parallel job for which places were looked for gives the hosts other numbers: behind it any
// change of a load is one of places.
func (r *run) forgetSorting() {
	r.stale = r.stale || len(r.unsorted) > 0
	r.shuffled, r.displaced = false, false
}

// passes reports whether a host changes its place among the others with a new load.
func (r *run) passes(h HostID, load float64) bool {
	for other, l := range r.load {
		if HostID(other) != h && cmp.Compare(r.load[h], l) != cmp.Compare(load, l) {
			return true
		}
	}
	return false
}
