package scheduler

import (
	"cmp"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// assignment is the places of a parallel job, as they are found.
type assignment struct {
	pe     PEID
	grants []Grant
	slots  int
	soft   int // violations of soft requests
	most   int // slots found on one host if they were too few
	// limited is set if a quota left fewer slots than there are at a place.
	limited bool
}

// offer holds the slots and resources of a host for a parallel job.
type offer struct {
	host   HostID
	slots  int // of all instances together
	master bool
	queues []queueOffer // in the order in which they are filled; some may have no slots, see spoils
	taken  int
	looked bool // at the quotas of all queues
	shut   bool // to the job, as the trace says
	told   bool // the trace names the lacking resource of the host
}

type queueOffer struct {
	id       InstanceID
	slots    int
	master   bool // the master task may run here
	barred   bool // while a job is placed: ruled out by a quota, or useless
	unlisted bool // it is not in the job's queue list (-q), only in that of the master task (-masterq)
	soft     int  // violations of soft requests
	taken    int  // while a job is placed, valid if slots of the host are taken
	grant    int  // of the taken slots: index in the grants, less those inserted in front of the others by then
}

// assignParallel finds the places of a parallel job at a start time: among all environments that
// match its pattern, it selects the one with the most slots, and among equal ones the one with the
// fewest violations of soft requests.
func (r *run) assignParallel(q *query) (Start, bool) {
	best, ok := r.bestAssignment(q)
	if !ok {
		return Start{}, false
	}
	return Start{PE: best.pe, Grants: best.grants, Duration: r.plannedDuration(q.category)}, true
}

// bestAssignment tries the environments.
func (r *run) bestAssignment(q *query) (assignment, bool) {
	var best assignment
	defer r.forgetSorting()
	found := false
	for _, pe := range r.environments(q.category) {
		a, ok := r.tryPE(q, pe)
		if ok && (!found || a.slots > best.slots || a.slots == best.slots && a.soft < best.soft) {
			best, found = a, true
		}
	}
	if len(q.category.pes) == 0 {
		q.because(Reason{kind: noMatchingPE})
	}
	return best, found
}

// environments returns the environments of a job in the order in which they are tried: the least
// recently modified first, like queue instances. The start and the end of each job modify them
// (tested).
func (r *run) environments(c *Category) []PEID {
	if len(c.pes) < 2 {
		return c.pes
	}
	s := r.categoryState(c)
	if s.pes == nil {
		s.pes = slices.Clone(c.pes)
		slices.SortStableFunc(s.pes, func(a, b PEID) int { return cmp.Compare(r.peOrder[a], r.peOrder[b]) })
	}
	return s.pes
}

// tryPE looks for the places of a parallel job in an environment: first it checks the free slots of
// the environment and of the cluster, then host by host. With a trace, it looks for the smallest
// number of slots, and keeps the order of the instances of the preceding search.
func (r *run) tryPE(q *query, pe PEID) (assignment, bool) {
	if q.is(starting) {
		r.lost = r.lost[:0]
	}
	in, ok := r.roomIn(q, pe)
	switch {
	case q.is(starting) && q.trace == nil:
		return r.startLargest(q, pe, in, ok)
	case !ok:
		return assignment{}, false
	case q.trace != nil:
		return r.explainHosts(q, pe, in)
	}
	return r.largest(q, pe, in, &slotRange{})
}

// leftInPE holds the slots of an environment and of the cluster that are free for a parallel job.
type leftInPE struct {
	least  int  // the smallest number of slots; for reasons also one that the allocation rule forbids
	free   int  // slots of the environment
	slots  int  // that the cluster has resources for
	master bool // the cluster has the additional resources of the master task
}

// roomIn checks an environment and the cluster for the smallest number of slots of a parallel job.
func (r *run) roomIn(q *query, pe PEID) (in leftInPE, ok bool) {
	c, object := q.category, r.model.pes[pe].object
	offers := func(slots int) (leftInPE, bool) {
		return in, q.because(Reason{kind: peSlots, place: int32(pe), number: max(slots, 0)})
	}
	in.least = fewestSlots(c, object)
	if q.is(later) && (q.trace != nil || q.is(fewest) && (in.least > 0 || q.is(exempt))) && c.requests.Slots.First() <= object.Slots {
		in.least = c.requests.Slots.First() // if the rule does not allow it, one on each host, see slotsPerHost
	}
	if in.least == 0 {
		return offers(0)
	}
	if !c.allows(&r.model.pes[pe].access) {
		q.because(Reason{kind: noPEAccess, place: int32(pe)})
		return offers(0)
	}
	if in.free = r.freeInPE(q, pe); in.free < in.least {
		return offers(in.free)
	}
	if !r.globally(q) {
		return offers(0)
	}
	quiet := q.silent()
	in.slots, in.master = r.slotsAt(&quiet, AtGlobal())
	if q.trace == nil {
		return in, in.master && in.slots >= in.least
	}
	switch most := r.atMost(q); {
	case !in.master && r.plan != nil && most > 0:
		return offers(most) // resources that count once per job will suffice for any number
	case in.slots >= in.least:
		return in, true
	case in.slots > 0 || r.plan != nil && most > 0:
		// The message contains the number of slots if nothing else ran, unless there are none at
		// all (tested).
		return offers(most)
	}
	r.slotsAt(q, AtGlobal()) // for the reason
	return offers(0)
}

// largest finds the largest number of slots of the job's range that an environment has places for. s is the search
// of a job that starts; it is empty for other queries.
func (r *run) largest(q *query, pe PEID, in leftInPE, s *slotRange) (assignment, bool) {
	slots := &q.category.requests.Slots
	per := r.model.pes[pe].object.AllocationRule.PerHost
	atMost := func(n int) int {
		n = slots.AtMost(n)
		for per > 0 && n%per != 0 {
			n = slots.AtMost(n - 1)
		}
		return n
	}
	most := min(in.free, in.slots)
	if q.is(fewest) {
		// Even if the rule does not allow this number: see slotsPerHost.
		most, atMost = min(most, in.least), func(n int) int {
			if n < in.least {
				return 0
			}
			return in.least
		}
	}
	if atMost(most) == 0 {
		return assignment{}, false
	}
	if q.category.isSoft() && !r.empty {
		r.sortForSoft(q, pe)
	} else {
		r.sortHosts()
	}
	r.numbered = true
	exclusive := q.is(starting) && len(r.model.adjustments) > 0 && q.category.exclusive()
	if !exclusive && r.tooFew(q, slots.First()) {
		return assignment{}, false
	}
	offers, all := r.offers(q, pe)
	s.limit = most
	a, ok := r.search(q, pe, offers, min(most, all), atMost, s)
	if exclusive && ok {
		r.loseShared(q, pe, a.slots, a.grants)
	}
	if ok {
		return a, true
	}
	if exclusive {
		r.loseShared(q, pe, in.least, nil)
	}
	return assignment{}, false
}

// search finds the largest number of slots for which offers suffice, at most n. atMost returns the largest
// number that is allowed.
func (r *run) search(q *query, pe PEID, offers []offer, n int, atMost func(int) int, s *slotRange) (assignment, bool) {
	if s.useless != nil {
		if !r.model.limits.sets.IsEmpty() {
			if a, ok := r.searchUnlimited(q, pe, offers, n, atMost, s); ok {
				return a, true
			}
			return r.searchInSteps(q, pe, offers, s)
		}
		n = min(n, r.tryFirst(q, pe, offers, n, s))
	}
	for n = atMost(n); n > 0; {
		a, ok := r.placeNoting(q, pe, n, offers, newNoting(s.useless, false))
		if ok {
			return a, true
		}
		// The slots collected for a larger number are all that exist.
		n = atMost(min(n-1, max(a.slots, a.most)))
	}
	return assignment{}, false
}

// freeInPE returns the number of free slots of a parallel environment during the time of the query.
func (r *run) freeInPE(q *query, pe PEID) int {
	total := r.model.pes[pe].object.Slots
	if r.empty {
		return total
	}
	if r.plan != nil {
		return int(r.plan.left(peResource(pe), float64(total), q.span))
	}
	return total - r.peUsed[pe]
}

// offers goes through the hosts in the order in which they are tried, and returns what each offers a
// parallel job. all is the largest number of slots that the hosts have together. With a trace it
// records instead why the job cannot use places, up to the last host of what the search has found.
func (r *run) offers(q *query, pe PEID) (list []offer, all int) {
	groups := &r.groups
	r.group(q, pe, groups)
	n := len(groups.hosts)
	if q.trace != nil && q.trace.enough {
		n = groups.upTo(r.model, q.trace.found)
	}
	for k, host := range groups.hosts[:n] {
		if q.trace.rulesOut(host) {
			continue
		}
		o := r.offerAt(q, pe, host, groups.at(k), nil)
		if q.trace == nil {
			all += r.limitOffer(q, &o)
			list = append(list, o)
		} else {
			r.takeFound(q, groups.at(k))
			q.trace.atEnd.takeHost(host, groups.at(k))
		}
	}
	return list, all
}

// offerAt returns the offer of a host and its instances for a parallel job. The offer reuses the slice
// queues.
func (r *run) offerAt(q *query, pe PEID, host HostID, instances []InstanceID, queues []queueOffer) offer {
	o := r.offerOf(q, host)
	o.queues = queues[:0]
	for k, id := range instances {
		if k > 0 && o.told && !o.shut {
			o = r.offerOf(q, host) // exclusive use of the host is reported for each of its instances
		}
		r.extend(q, pe, &o, id)
	}
	return o
}

// offerOf returns the slots that a host itself offers, without its queue instances.
func (r *run) offerOf(q *query, host HostID) offer {
	// Without a trace its instances know, see parallelStatic. A host in neither of two lists has no
	// reasons (tested).
	if c := q.category; q.trace != nil && (len(c.queues) > 0 && len(c.masterQueues) > 0 && !r.listsHost(c, &r.model.hosts[host]) || !r.hostAllows(q, host)) {
		return offer{host: host, shut: true}
	}
	said := q.trace.said()
	slots, master := r.slotsAt(q, AtHost(host))
	o := offer{host: host, slots: r.coresFor(q, host, slots), master: master}
	if q.trace != nil {
		o.shut, o.told = r.exhaustedFor(q, &o), q.trace.said() > said
	}
	return o
}

// extend adds the slots of an instance to the offer of its host. It checks the static conditions of
// the instance, quotas if reasons are requested (otherwise take checks them), and the free
// resources of the instance.
func (r *run) extend(q *query, pe PEID, o *offer, id InstanceID) {
	switch {
	case q.trace == nil:
		if o.slots == 0 {
			return
		}
	case o.shut || !r.parallelStatic(q, id, pe) || r.explainQuota(q, pe, id) || o.told:
		return
	}
	c := q.category
	slots, master := r.slotsAt(q, AtInstance(id))
	if slots == 0 {
		if r.spoils(c, id) {
			o.queues = append(o.queues, queueOffer{id: id}) // to spoil quotas
		}
		return
	}
	in := queueOffer{id: id, slots: slots, master: master && o.master && r.mayBeMaster(c, id), soft: r.violations(c, id)}
	if len(c.masterQueues) > 0 && len(c.queues) > 0 && !r.inList(c, id) {
		if in.unlisted = true; !in.master {
			return
		}
	}
	o.queues = append(o.queues, in)
}

// limitOffer reduces an offer to the sum of the instances' slots, and to the slots that the load
// thresholds allow.
func (r *run) limitOffer(q *query, o *offer) int {
	sum := 0
	for _, in := range o.queues {
		sum += in.slots
	}
	o.slots = min(o.slots, sum)
	if len(r.model.adjustments) == 0 || r.empty || q.is(later) && !q.is(alarming) {
		return o.slots
	}
	// All queues of the host count, whether the job can use them or not, and for a job that may get a
	// reservation also those that are full (tested).
	room, reserving := 0, q.job != nil && r.mayReserve(q.job)
	for _, id := range r.model.hosts[o.host].instances {
		if r.order.usable(id) || r.order.at[id].full || reserving && slices.Contains(r.postponed, id) {
			room = max(room, r.headroom(id))
		}
	}
	o.slots = min(o.slots, room)
	return o.slots
}

// parallelStatic does what staticallyFits does, for a parallel job in an environment. With a trace,
// cluster queues and hosts have been checked before.
func (r *run) parallelStatic(q *query, id InstanceID, pe PEID) bool {
	if q.trace != nil {
		return !q.trace.queues[r.model.instances[id].queue] && r.instanceStatic(q, id, pe)
	}
	return slices.Contains(r.model.instances[id].pes, r.model.pes[pe].object.Name) &&
		!r.unclean(q.job, id) && !r.shuns(id) && r.staticallyFits(q, id)
}

// slotsAt returns the number of slots that a parallel job can have at a place, and whether the
// place has the additional consumables of the master task (kind JOB).
func (m *matcher) slotsAt(q *query, p Place) (slots int, master bool) {
	c := q.category
	slots, master = math.MaxInt32, true
	limit := func(id AttributeID, amount float64, implied bool) bool {
		a := &m.model.attributes[id]
		if a.perJob() {
			if quiet := q.silent(); !m.consume(&quiet, p, id, amount, implied) {
				master = false
			}
			return true
		}
		if amount <= 0 {
			return true
		}
		// At the level of the cluster the number of hosts is not known yet: there must be enough
		// for one slot on each.
		if a.perHost() && p.layer != atGlobal {
			return m.consume(q, p, id, amount, implied)
		}
		slots = min(slots, m.wholeSlots(q, p, id, amount))
		return slots > 0 || m.consume(q, p, id, amount, implied)
	}
	if id := m.model.slots; id != None {
		if _, ok := m.configuredAt(p, id); ok && !limit(id, 1, false) {
			return 0, false
		}
	}
	l := m.model.layerAt(p)
	for i := range l.settings {
		id := l.settings[i].attribute
		a := &m.model.attributes[id]
		if !a.consumable() || id == m.model.slots || c.hardRequest(id) != nil {
			continue
		}
		if a.exclusive() {
			if !m.shared(q, p, id, true) {
				return 0, false
			}
		} else if amount := a.Default.Number(); amount != 0 && !limit(id, amount, true) {
			return 0, false
		}
	}
	for i := range c.hard {
		r := &c.hard[i]
		a := &m.model.attributes[r.attribute]
		if _, ok := m.configuredAt(p, r.attribute); ok && a.consumable() && !a.exclusive() {
			if !limit(r.attribute, r.amount, false) {
				return 0, false
			}
		} else if a.perJob() && m.lacks(p, r.attribute) {
			master = false // but other tasks need nothing of it (tested)
		} else if !m.explicit(q, r, p) {
			return 0, false
		}
	}
	return slots, master
}

// lacks reports whether a place is a queue instance, and neither it nor any layer above it has
// an attribute.
func (m *matcher) lacks(p Place, a AttributeID) bool {
	if p.layer != atQueue {
		return false
	}
	v, _ := m.at(p, a)
	return !v.IsValid() && !m.known(a, p)
}

// wholeSlots returns the number of slots for which the remaining amount of a consumable is enough.
func (m *matcher) wholeSlots(q *query, p Place, id AttributeID, each float64) int {
	capacity, ok := m.capacity(p, id)
	most := math.MaxInt32
	if m.model.attributes[id].resourceMap {
		if n := math.Floor(m.suitable(q, p, id) / each); n < math.MaxInt32 {
			most = int(n)
		}
	}
	switch {
	case !ok || !m.bearable(p, id, each):
		return 0
	case m.plan != nil:
		return m.plan.most(resource{place: p, attribute: id}, q.span).Slots(capacity, each, most)
	case m.empty:
		return value.Amount{}.Slots(capacity, each, most)
	}
	return m.used.at(p, id).amount.Slots(capacity, each, most)
}
