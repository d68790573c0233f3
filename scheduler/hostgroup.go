package scheduler

import (
	"cmp"
	"iter"
	"slices"
)

// hostGroups are queue instances grouped by their hosts, in the order in which a parallel job is
// compared with them. The slices are reused.
type hostGroups struct {
	hosts []HostID
	ends  []int32 // of each host: the end of its instances in ids
	ids   []InstanceID
	seen  []seenInstance
}

type seenInstance struct {
	id    InstanceID
	group int32
}

// at returns the instances of a group.
func (g *hostGroups) at(k int) []InstanceID {
	begin := int32(0)
	if k > 0 {
		begin = g.ends[k-1]
	}
	return g.ids[begin:g.ends[k]]
}

func (g *hostGroups) reset() { g.hosts, g.ends, g.seen = g.hosts[:0], g.ends[:0], g.seen[:0] }

// add adds an instance to the group of its host. If the instance does not count, it only determines
// the place of its host among the others. index contains the number of each host's group, from 1.
func (g *hostGroups) add(index []int32, host HostID, id InstanceID, counts bool) {
	k := index[host] - 1
	if k < 0 {
		k = int32(len(g.hosts))
		index[host] = k + 1
		g.hosts, g.ends = append(g.hosts, host), append(g.ends, 0)
	}
	if counts {
		g.seen = append(g.seen, seenInstance{id, k})
		g.ends[k]++
	}
}

// finish lists the instances of each group and drops groups without any. It clears index.
func (g *hostGroups) finish(index []int32) {
	begin := int32(0)
	for k, n := range g.ends {
		g.ends[k] = begin
		begin += n
		index[g.hosts[k]] = 0
	}
	g.ids = grown(g.ids, len(g.seen))[:len(g.seen)]
	for _, s := range g.seen {
		g.ids[g.ends[s.group]] = s.id
		g.ends[s.group]++
	}
	n, last := 0, int32(0)
	for k, end := range g.ends {
		if end > last {
			g.hosts[n], g.ends[n] = g.hosts[k], end
			n++
			last = end
		}
	}
	g.hosts, g.ends = g.hosts[:n], g.ends[:n]
}

// upTo returns how many groups there are up to the last one that has a grant.
func (g *hostGroups) upTo(m *Model, grants []Grant) int {
	last := -1
	for i := range grants {
		last = max(last, slices.Index(g.hosts, m.instances[grants[i].Instance].host))
	}
	return last + 1
}

// group groups by host the instances that a parallel job is compared with. The order of the hosts is
// that of their first instances in cluster queues that are not ruled out as a whole, even if the job
// cannot use these instances (tested). Without a trace only instances that the job may use are listed;
// with one, all are, and those in cluster queues that are ruled out come last.
func (r *run) group(q *query, pe PEID, g *hostGroups) {
	if r.hostIndex == nil {
		r.hostIndex = make([]int32, len(r.model.hosts))
	}
	g.reset()
	if q.trace == nil {
		open := r.openQueues(q, pe, fewestSlots(q.category, r.model.pes[pe].object))
		for id := range r.ordering(q) {
			if i := &r.model.instances[id]; open[i.queue] {
				g.add(r.hostIndex, i.host, id, (!q.is(starting) || !r.order.at[id].full) && r.parallelStatic(q, id, pe))
			}
		}
	} else {
		for _, skipped := range [...]bool{false, true} {
			for id := range r.compared(q) {
				if i := &r.model.instances[id]; q.trace.queues[i.queue] == skipped {
					g.add(r.hostIndex, i.host, id, true)
				}
			}
		}
	}
	g.finish(r.hostIndex)
}

// ordering returns the instances that determine the order of hosts for a parallel job: for a job that starts, also
// those that linger.
func (r *run) ordering(q *query) iter.Seq[InstanceID] {
	if len(r.order.full) > 0 && q.is(starting) {
		return r.order.withFull()
	}
	return r.compared(q)
}

// compared returns the instances that a parallel job is compared with. For the reasons of a job that
// gets a reservation they include those that are full (tested). When the run decides, without a
// trace, they are in the order in which they meet the job's soft requests.
func (r *run) compared(q *query) iter.Seq[InstanceID] {
	c := q.category
	switch {
	case q.trace != nil && q.is(withFull):
		return r.reservable()
	case q.trace != nil, !c.isSoft(), !q.is(later) && !r.empty: // they are in that order, see sortForSoft
		return r.candidates(q)
	}
	n := make([]int, len(r.model.instances))
	list := slices.Collect(r.candidates(q))
	for _, id := range list {
		n[id] = r.violations(c, id)
	}
	slices.SortStableFunc(list, func(a, b InstanceID) int { return cmp.Compare(n[a], n[b]) })
	return slices.Values(list)
}

// openQueues returns for each cluster queue whether a job may use it in a parallel environment, as far
// as that follows from what all instances of the queue have in common. It assumes a number of slots.
// Without a trace that is the smallest number of the job, and the result is kept for its category.
func (r *run) openQueues(q *query, pe PEID, slots int) []bool {
	c := q.category
	if open := c.open[pe]; open != nil && q.trace == nil {
		return open
	}
	open := make([]bool, len(r.model.queues))
	if q.trace != nil {
		for id := range r.compared(q) { // other queues get no reasons
			open[r.model.instances[id].queue] = true
		}
	}
	for id := range open {
		open[id] = (q.trace == nil || open[id]) && r.queueOffers(q, QueueID(id), pe, slots)
	}
	if q.trace != nil {
		return open
	}
	if c.open == nil {
		c.open = map[PEID][]bool{}
	}
	c.open[pe] = open
	return open
}
