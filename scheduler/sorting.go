package scheduler

import (
	"cmp"
	"math"
)

// sortHosts brings the order up to date. It is called when instances are about to be tried
// for a job without soft requests, or for a serial one.
//
// A parallel job with soft requests leaves the instances in its preferred order (see sortForSoft).
// Grid Engine keeps this order for later jobs until hosts change places, unless no sorting job has
// been tried yet, or that job has started (tested).
func (r *run) sortHosts() {
	sorts := !r.settled || r.shuffled || r.displaced
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
	if sorts && !r.order.tiers {
		r.order.sortFull(r.loadOf)
	}
}

// sortSerial does what sortHosts does, for a serial job.
func (r *run) sortSerial() {
	r.sortHosts()
	r.settled = true
}

// sortForSoft sorts the instances for a parallel job with soft requests in an environment:
// instances of unsuitable cluster queues come last, and among the others, instances that meet most
// of its requests come first.
func (r *run) sortForSoft(q *query, pe PEID) {
	const last = math.MaxInt32 - 1
	c, quiet := q.category, q.silent()
	open := r.openQueues(&quiet, pe, fewestSlots(c, r.model.pes[pe].object))
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

// forgetSorting decides, after a job has been tried, whether the hosts have to be sorted again. If
// a parallel job was refused before any instance was tried, Grid Engine treats the order as sorted,
// and sorts again only when a starting task makes hosts change places (tested). A parallel job for
// which places were searched renumbers the hosts: after it, any change of a load counts as a change
// of places.
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
