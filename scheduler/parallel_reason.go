package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/diagram"
)

// explainHosts finds the reasons why a parallel job has no place in an environment with enough free
// slots: first for cluster queues, then host by host. It returns the assignment that the search
// found for the smallest number of slots.
func (r *run) explainHosts(q *query, pe PEID, in leftInPE) (assignment, bool) {
	t := q.trace
	t.lookAgain(r.model)
	t.perHost = slotsPerHost(r.model.pes[pe].object.AllocationRule, in.least)
	for id, open := range r.openQueues(q, pe, in.least) {
		t.queues[id] = !open
	}
	// Lacking consumables of the master task are ignored here: the message reports the slots as
	// available (tested).
	quiet := q.silent()
	offers, _ := r.offers(&quiet, pe)
	if !in.master { // no instance has a place for the master task, and the last slot is kept for it
		for i := range offers {
			for k := range offers[i].queues {
				offers[i].queues[k].master = false
			}
		}
	}
	found, enough := r.place(q, pe, in.least, offers)
	t.found, t.enough = found.grants, enough
	if q.is(withFull) && !q.is(later) {
		end := q.in(later | fewest)
		end.span = span{diagram.Forever - 1, 1}
		t.atEnd = &placing{run: r, query: &end, category: q.category, want: in.least, a: assignment{pe: pe}}
		t.atEnd.quotas.begin(r, &end, pe)
	}
	r.offers(q, pe)
	if !enough {
		q.because(Reason{kind: peSlots, place: int32(pe), number: max(found.slots, 0)})
	}
	return found, enough
}

// takeFound counts the slots found on a host against quotas, so that they are not available on the
// next host.
func (r *run) takeFound(q *query, host []InstanceID) {
	if q.trace.quotas == nil || r.plan != nil {
		return
	}
	for _, g := range q.trace.found {
		if slices.Contains(host, g.Instance) {
			if left, _ := q.trace.quotas.left(g.Instance, false); left >= g.Slots {
				q.trace.quotas.take(g.Instance, g.Slots)
			}
		}
	}
}

// comesLater reports whether a parallel job gets a reservation: whether it has places when
// all that is planned is over.
func (r *run) comesLater(q *query) bool {
	if !r.mayReserve(q.job) {
		return false
	}
	last := q.in(later | fewest)
	for t := range diagram.Events(r.now, r.plan.all()) {
		if t != diagram.Forever {
			last.start = t
			_, ok := r.bestAssignment(&last)
			return ok
		}
	}
	return false
}

// atMost returns the number of slots that the cluster has for a job after the end of everything in
// the plan, or if there is no plan, when nothing else runs.
func (r *run) atMost(q *query) int {
	m, end := r.matcher, q.during(span{diagram.Forever - 1, 1})
	if r.plan == nil {
		m.view = r.whenEmpty()
	}
	n, master := m.slotsAt(&end, AtGlobal())
	if !master {
		return 0
	}
	return n
}

// fewestSlots returns the smallest number of slots that a job takes, an environment has and its
// allocation rule allows; 0 for none.
func fewestSlots(c *Category, pe *qconf.ParallelEnvironment) int {
	for i := range c.requests.Slots.Ranges() {
		per := max(pe.AllocationRule.PerHost, 1)
		if n := (i.First + per - 1) / per * per; n <= min(i.Last, pe.Slots) {
			return n
		}
	}
	return 0
}

// exhaustedFor reports whether a host has too little left for a parallel job, so that its instances
// are not checked.
func (r *run) exhaustedFor(q *query, o *offer) bool {
	switch least := q.trace.perHost; {
	case o.slots >= least:
		return false
	case o.slots > 0 && r.plan == nil:
		// Some slots are left: check whether they would suffice if nothing else ran (tested).
		return r.mostOnHost(q, o.host) < least
	default:
		return r.later(q, o.host) < least
	}
}

// mostOnHost returns the number of slots that a host has for a job when nothing else runs.
func (r *run) mostOnHost(q *query, id HostID) int {
	m, now := matcher{view: r.whenEmpty()}, q.during(span{r.now, 1})
	n, _ := m.slotsAt(&now, AtHost(id))
	return m.coresFor(&now, id, n)
}

// later returns the number of slots that a host will have after the end of everything in the plan.
// If there is no plan, only exclusive use counts: a host that a job requests exclusively while
// others use it has none, and neither does a host that another job uses exclusively, for jobs that
// do not request the resource at all (tested).
func (r *run) later(q *query, id HostID) int {
	left := q.in(q.mode | leaving)
	if r.plan == nil {
		n, _ := r.slotsAt(&left, AtHost(id))
		return r.coresFor(&left, id, n)
	}
	for _, s := range r.model.hosts[id].settings {
		a := s.attribute
		if !r.model.attributes[a].exclusive() {
			continue
		}
		if q.category.hardRequest(a) == nil && !r.shared(&left, AtHost(id), a, true) {
			return 0
		}
	}
	left.span = span{diagram.Forever - 1, 1}
	n, _ := r.slotsAt(&left, AtHost(id))
	return n
}

// explainQuota says so where the quotas leave no slot at an instance.
func (r *run) explainQuota(q *query, pe PEID, id InstanceID) bool {
	if q.trace.quotas == nil {
		q.trace.quotas = &slotQuotas{}
		q.trace.quotas.begin(r, q, pe)
	}
	if r.spoils(q.category, id) {
		q.trace.quotas.meet(id, true)
	}
	left, failure := q.trace.quotas.left(id, true)
	if left > 0 || r.allowedLater(q, pe, id) {
		return false
	}
	if i := &r.model.instances[id]; failure.SortOut(int32(i.queue), int32(i.host), q.trace.queues, q.trace.sorted) {
		failure.SortOutHosts(q.trace.sorted)
	}
	return !q.because(exceeded(&failure))
}

// allowedLater reports whether a parallel job gets a reservation, and the quotas allow it slots at an
// instance after the end of everything in the plan. Then Grid Engine does not report them, unless it has
// found enough slots for that time on the hosts before (tested).
func (r *run) allowedLater(q *query, pe PEID, id InstanceID) bool {
	if !q.is(withFull) {
		return false
	}
	if p := q.trace.atEnd; p != nil {
		n, _ := p.quotas.left(id, true)
		return n > 0 && !p.full()
	}
	var later slotQuotas
	later.begin(r, new(q.during(span{diagram.Forever - 1, 1})), pe)
	n, _ := later.left(id, true)
	return n > 0
}

// queueOffers checks a cluster queue for a number of slots of a parallel job in an environment.
func (r *run) queueOffers(q *query, id QueueID, pe PEID, slots int) bool {
	return r.queueStatic(q, id, slots) && r.queueOffersPE(q, id, r.model.PEName(pe))
}

// queueOffersPE checks that any variant of a cluster queue offers the environment.
func (r *run) queueOffersPE(q *query, id QueueID, name string) bool {
	for i := range r.model.queues[id].variants {
		if slices.Contains(r.model.queues[id].variants[i].pes, name) {
			return true
		}
	}
	return q.because(Reason{kind: notInPEList, place: int32(id), text: name})
}
