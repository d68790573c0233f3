package scheduler

import (
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/diagram"
	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/value"
)

// plan holds the future use of every resource (sched_conf(5), max_reservation). A run has a plan
// only if jobs may reserve, or if there are advance reservations.
type plan struct {
	diagrams timelines
	quotas   map[counter]*diagram.Diagram
	bulk     map[*diagram.Diagram][]diagram.Booking // to be added together
	claims   []quota.Claim                          // to be used again

	cores     map[HostID][]plannedCores
	coreTimes diagram.Diagram // when any of them begin and end

	// since is the time since which all answers so far have been the same for a period of the same
	// length (lookBack).
	since int64
}

// timelines are the diagrams of consumables, by layer, attribute and place: their use, and for
// exclusive ones also the use by jobs that do not request them.
type timelines struct {
	of [2][4][][]*diagram.Diagram
	// all of them that there are
	list []*diagram.Diagram
}

// at returns the diagram of a resource, or nil if it is not used.
func (t *timelines) at(r resource) *diagram.Diagram {
	byPlace := t.byPlace(r)
	if i := int(r.place.index); i < len(byPlace) {
		return byPlace[i]
	}
	return nil
}

func (t *timelines) byPlace(r resource) []*diagram.Diagram {
	byAttribute := t.of[r.kind()][r.place.layer.index()]
	if a := int(r.attribute) + 1; a < len(byAttribute) {
		return byAttribute[a]
	}
	return nil
}

// made returns the diagram of a resource, to be changed.
func (t *timelines) made(r resource) *diagram.Diagram {
	byAttribute := &t.of[r.kind()][r.place.layer.index()]
	a, i := int(r.attribute)+1, int(r.place.index)
	*byAttribute = grown(*byAttribute, a+1)
	(*byAttribute)[a] = grown((*byAttribute)[a], i+1)
	d := &(*byAttribute)[a][i]
	if *d == nil {
		*d = &diagram.Diagram{}
		t.list = append(t.list, *d)
	}
	return *d
}

// grown returns a list with at least n elements.
func grown[T any](list []T, n int) []T {
	if n <= len(list) {
		return list
	}
	if n <= cap(list) {
		return list[:n]
	}
	return append(list, make([]T, n-len(list))...)
}

func newPlan() *plan {
	return &plan{
		quotas: map[counter]*diagram.Diagram{},
		bulk:   map[*diagram.Diagram][]diagram.Booking{}, cores: map[HostID][]plannedCores{},
	}
}

// resource is a consumable at a place, whose use is planned.
type resource struct {
	place     Place
	attribute AttributeID
	others    bool // for an exclusive attribute: the jobs that do not request it
}

// kind returns an index: 1 for others.
func (r *resource) kind() int {
	if r.others {
		return 1
	}
	return 0
}

// counter is the same of a resource quota.
type counter struct {
	quota.Counter
	others bool
}

// span is the start and the duration of a job. It matters if the run plans
// ahead.
type span struct {
	start, duration int64
}

func (s span) until() int64 { return diagram.End(s.start, s.duration) }

func (s span) booking(slots int, each float64) diagram.Booking {
	return diagram.Booking{From: s.start, Until: s.until(), Slots: slots, Each: each}
}

// most returns the largest amount of a resource that is in use during a time span.
func (p *plan) most(r resource, at span) value.Amount {
	most, since := p.diagrams.at(r).MaxSince(at.start, at.until())
	p.since = max(p.since, since)
	return most
}

func (p *plan) fits(r resource, capacity float64, slots int, each float64, at span) bool {
	return p.most(r, at).Fits(capacity, slots, each)
}

func (p *plan) left(r resource, capacity float64, at span) float64 {
	return p.most(r, at).Left(capacity)
}

// exclusive reports whether a job uses a place exclusively.
func (p *plan) exclusive(r resource, at span) bool {
	return !p.most(r, at).IsZero()
}

// inUse reports whether jobs use a place that do not request it exclusively.
func (p *plan) inUse(r resource, at span) bool {
	r.others = true
	return !p.most(r, at).IsZero()
}

func (p *plan) diagramOf(r resource) *diagram.Diagram {
	return p.diagrams.made(r)
}

func (p *plan) quotaDiagram(c counter) *diagram.Diagram {
	d := p.quotas[c]
	if d == nil {
		d = &diagram.Diagram{}
		p.quotas[c] = d
	}
	return d
}

// add books, at once or, while much is booked together, later.
func (p *plan) add(d *diagram.Diagram, b diagram.Booking) {
	if p.bulk != nil {
		p.bulk[d] = append(p.bulk[d], b)
		return
	}
	// The state has already refused amounts that cannot be added.
	_ = d.Add(b)
}

func (p *plan) flush() {
	for d, list := range p.bulk {
		_ = d.AddAll(list)
	}
	p.bulk = nil
}

// plannedDuration returns the duration of a job in seconds: from its requests, or otherwise from
// default_duration of sched_conf(5).
func (v *view) plannedDuration(c *Category) int64 {
	if c.duration > 0 {
		return c.duration
	}
	return v.defaultDuration()
}

func (v *view) defaultDuration() int64 {
	if d := seconds(v.model.scheduler.DefaultDuration); d < math.MaxInt32 {
		return int64(d)
	}
	return diagram.Forever
}

// duration returns the planned duration of a job of a category, with the time that a job needs
// around its run.
func (v *view) duration(c *Category) int64 { return v.withOffset(v.plannedDuration(c)) }

func (v *view) withOffset(d int64) int64 {
	if d == diagram.Forever {
		return d
	}
	return d + int64(v.model.scheduler.Params.DurationOffset.Seconds())
}

// planAhead books all known future use: running tasks until their expected end, advance
// reservations, and the times at which calendars close queues.
func (r *run) planAhead() {
	if r.plan == nil && r.model.scheduler.MaxReservation == 0 && len(r.reservations) == 0 {
		return
	}
	r.plan = newPlan()
	r.planned = true
	running := r.runningByID()
	for _, t := range running {
		at := r.expected(t)
		if t.Job.Category.requests.Reservation == 0 {
			r.planTask(t.Job.Category, t.PE, t.Grants, t.Away, at)
		}
		r.planCores(t.Grants, at)
	}
	r.monitorRunning(running)
	for _, ar := range r.reservations {
		if ar.End > r.now {
			r.planGrants(ar.Category, ar.PE, ar.Grants, Away{}, span{max(ar.Start, r.now), ar.End - max(ar.Start, r.now)})
		}
	}
	r.planReportedCores()
	r.planCalendars()
	r.plan.flush()
}

// expected returns when a running task started and how long it is expected to last: until the
// next run at least.
func (r *run) expected(t *Running) span {
	limit := t.Limit
	if limit == 0 {
		limit = r.defaultDuration()
	}
	at := span{t.Started, r.withOffset(limit)}
	if at.until() <= r.now {
		at.duration = r.now - t.Started + int64(r.model.scheduler.ScheduleInterval.Seconds())
	}
	return at
}

// planTask books the whole use of a task for a time.
func (r *run) planTask(c *Category, pe PEID, grants []Grant, away Away, at span) {
	r.planGrants(c, pe, grants, away, at)
	for i, g := range grants {
		r.planQuotas(c, pe, g, i == 0 && !away.Master, at)
	}
}

// planGrants does what planTask does, without quotas, which limit neither an advance reservation
// nor the tasks in it (sge_resource_quota(5)).
func (r *run) planGrants(c *Category, pe PEID, grants []Grant, away Away, at span) {
	total := away.Slots
	for p, part := range r.model.portions(grants, away) {
		r.planAt(c, p, part, &grants[part.grant], at)
	}
	for _, g := range grants {
		total += g.Slots
	}
	if pe != None {
		r.plan.add(r.plan.diagramOf(peResource(pe)), at.booking(total, 1))
	}
}

func peResource(pe PEID) resource {
	return resource{place: Place{layer: atPE, index: int32(pe)}, attribute: None}
}

func (r *run) planAt(c *Category, p Place, part portion, g *Grant, at span) {
	_ = c.uses(p, func(u use) error {
		n := u.times(part)
		if n == 0 {
			return nil
		}
		each := 1.0
		if !u.others {
			if n, each = r.model.counted(g, p, &u, n); n == 0 {
				return nil
			}
		}
		r.plan.add(r.plan.diagramOf(resource{p, u.attribute, u.others}), at.booking(n, each))
		return nil
	})
}

func (r *run) planQuotas(c *Category, pe PEID, g Grant, master bool, at span) {
	r.eachClaim(c, pe, g, master, func(claim *quota.Claim, n int) {
		each := claim.Each
		key := counter{claim.Counter, claim.Exclusive && each == 0}
		if key.others {
			each = 1
		}
		r.plan.add(r.plan.quotaDiagram(key), at.booking(n, each))
	})
}

// eachClaim calls f for each amount of resource quotas that a grant takes, with the number of times it
// takes it. master is set for the grant of the master task.
func (r *run) eachClaim(c *Category, pe PEID, g Grant, master bool, f func(claim *quota.Claim, n int)) {
	list := r.claims(c, pe, g.Instance)
	for i := range list {
		n := g.Slots
		if list[i].Once {
			if !master {
				continue
			}
			n = 1
		}
		f(&list[i], n)
	}
}

// claims returns the amounts of resource quotas that a job takes at an instance. The list is good
// until the next call.
func (m *matcher) claims(c *Category, pe PEID, id InstanceID) []quota.Claim {
	if c.requests.Reservation != 0 {
		return nil
	}
	i := &m.model.instances[id]
	usage := m.quotas.usage
	if m.empty {
		usage = nil
	}
	m.plan.claims = c.demand(pe).Claims(m.plan.claims[:0], usage, m.quotaValue, int32(i.queue), int32(i.host))
	return m.plan.claims
}

// planCalendars books the slots of queues for the next time at which their calendars
// close them.
func (r *run) planCalendars() {
	for id := range r.model.instances {
		c := r.closings[InstanceID(id)]
		slots := r.model.instances[id].settings.Slots
		if c.from < c.until && c.until > r.now && slots > 0 && r.model.slots != None {
			at := span{max(c.from, r.now), c.until - max(c.from, r.now)}
			r.plan.add(r.plan.diagramOf(resource{place: AtInstance(InstanceID(id)), attribute: r.model.slots}), at.booking(slots, 1))
		}
	}
}

// closing is the time at which a calendar closes a queue.
type closing struct{ from, until int64 }

// SetClosing says when the calendar of a queue instance will disable or suspend it next,
// and when it will open it again (calendar_conf(5)). Jobs are not planned into that time.
// until may be diagram.Forever; from = until takes it back.
func (s *State) SetClosing(id InstanceID, from, until int64) {
	if from == until {
		delete(s.closings, id)
		return
	}
	s.closings[id] = closing{from, until}
}

// planStart books a task that starts in this run.
func (r *run) planStart(s *Start) {
	if r.plan == nil {
		return
	}
	at := span{r.now, r.withOffset(s.Duration)}
	if s.Job.Category.requests.Reservation == 0 { // its use is part of the reservation's
		r.planTask(s.Job.Category, s.PE, s.Grants, Away{}, at)
	}
	r.planCores(s.Grants, at)
	r.monitor("STARTING", s.Job, s.Task, s.PE, s.Grants, at)
}

// withinPlannedQuota checks the quotas for a serial job that starts at a time. The first set that refuses
// the job is the reason, whether the job would fit into an unused quota or not (tested).
func (m *matcher) withinPlannedQuota(q *query, id InstanceID) (quota.Failure, bool) {
	i := &m.model.instances[id]
	usage := m.quotas.usage
	if m.empty {
		usage = nil
	}
	return q.category.demand(None).CheckClaims(usage, m.quotaValue, int32(i.queue), int32(i.host), func(c *quota.Claim) bool {
		return m.claimSlots(c, q.span, 0) >= 1
	})
}

// claimSlots returns the number of slots that a claim still allows during the given time, when the
// amount taken has already been used.
func (m *matcher) claimSlots(c *quota.Claim, at span, taken float64) int {
	used := m.plan.quotas[counter{Counter: c.Counter}].Max(at.start, at.until())
	if c.Exclusive {
		others := m.plan.quotas[counter{c.Counter, true}].Max(at.start, at.until())
		if !used.IsZero() || c.Each != 0 && !others.IsZero() {
			return 0
		}
		return math.MaxInt32
	}
	if c.Each <= 0 {
		return math.MaxInt32
	}
	return used.Slots(c.Limit-taken, c.Each, math.MaxInt32)
}

// reserve finds the earliest time at which a task can start, and reserves its places from then on
// (sched_conf(5), max_reservation).
func (r *run) reserve(h *head) bool {
	res, ok := r.earliest(new(r.ask(h.job, later)))
	if !ok {
		return false
	}
	r.explainReserving(h)
	res.Job, res.Task = h.job, uint32(h.tasks.First())
	at := span{res.At, r.duration(h.job.Category)}
	res.Until = at.until()
	r.giveCores(h.job.Category, res.Grants, at)
	r.planTask(h.job.Category, res.PE, res.Grants, Away{}, at)
	r.planCores(res.Grants, at)
	r.monitor("RESERVING", res.Job, res.Task, res.PE, res.Grants, at)
	r.decisions.Reservations = append(r.decisions.Reservations, res)
	for _, g := range res.Grants { // an alarm there counts again, see readmit (tested)
		r.dropUnusable(r.model.instances[g.Instance].host)
	}
	r.order.leave()
	r.separate()
	r.reserved++
	return true
}

func (r *run) earliest(q *query) (Reserved, bool) {
	switch c := q.category; {
	case c.requests.Reservation != 0:
		return Reserved{}, false
	case c.Parallel():
		return r.earliestParallel(q)
	}
	return r.earliestSerial(q)
}

// earliestSerial selects the instance that is free first, and among several that are free at the
// same time the one with the fewest violations of soft requests.
func (r *run) earliestSerial(q *query) (Reserved, bool) {
	c := q.category
	best := Reserved{At: diagram.Forever, PE: None}
	fewest := 0
	anywhere := r.freeFrom(c, AtGlobal())
	if anywhere == diagram.Forever || !r.globalStatic(q) {
		return best, false
	}
	for id := range r.candidates(q) {
		i := &r.model.instances[id]
		if r.unclean(q.job, id) || !r.staticallyFits(q, id) {
			continue
		}
		t := max(anywhere, r.freeFrom(c, AtHost(i.host)), r.freeFrom(c, AtInstance(id)), r.quotaFrom(c, id), r.coresFrom(q, i.host))
		if t == diagram.Forever || t > best.At {
			continue
		}
		n := r.violations(c, id)
		if t < best.At || n < fewest {
			best.At, best.Grants, fewest = t, []Grant{{Instance: id, Slots: 1}}, n
		}
	}
	return best, best.At < diagram.Forever
}

// freeFrom returns the time from which a place permanently has everything that a job requests.
func (r *run) freeFrom(c *Category, p Place) int64 {
	from := r.now
	_ = c.uses(p, func(u use) error {
		at := resource{place: p, attribute: u.attribute}
		if u.exclusive {
			from = max(from, r.plan.diagrams.at(at).Earliest(0, r.now, 1, 0))
			if at.others = true; !u.others {
				from = max(from, r.plan.diagrams.at(at).Earliest(0, r.now, 1, 0))
			}
			return nil
		}
		capacity, _ := r.capacity(p, u.attribute)
		from = max(from, r.plan.diagrams.at(at).Earliest(capacity, r.now, 1, u.each))
		return nil
	})
	for i := range c.hard {
		q := &c.hard[i]
		if _, ok := r.configuredAt(p, q.attribute); ok && r.model.attributes[q.attribute].consumable() {
			if v, _ := r.at(p, q.attribute); v.Number() < q.amount {
				return diagram.Forever
			}
			continue
		}
		if v, _ := r.at(p, q.attribute); v.IsValid() && !q.value.Match(r.model.attributes[q.attribute].Relop, v) {
			return diagram.Forever
		} else if !v.IsValid() && p.layer == atQueue && !r.known(q.attribute, p) {
			return diagram.Forever
		}
	}
	return from
}

func (r *run) quotaFrom(c *Category, id InstanceID) int64 {
	i := &r.model.instances[id]
	if _, ok := c.demand(None).Check(nil, r.quotaValue, int32(i.queue), int32(i.host)); !ok {
		return diagram.Forever
	}
	from := r.now
	for _, claim := range r.claims(c, None, id) {
		d := r.plan.quotas[counter{Counter: claim.Counter}]
		if !claim.Exclusive {
			from = max(from, d.Earliest(claim.Limit, r.now, 1, claim.Each))
			continue
		}
		from = max(from, d.Earliest(0, r.now, 1, 0))
		if claim.Each != 0 {
			from = max(from, r.plan.quotas[counter{claim.Counter, true}].Earliest(0, r.now, 1, 0))
		}
	}
	return from
}

// earliestParallel looks for places in one environment after the other. In the first one that has
// places at any time, it goes back in time from the last event as long as the job finds places for
// its smallest number of slots, and then uses as many slots as possible at that time. The smallest
// number counts even if the allocation rule does not allow it: see slotsPerHost. It uses another
// environment only if that has places at the same time that meet more soft requests, even if it has
// places earlier, or more slots (tested).
func (r *run) earliestParallel(q *query) (Reserved, bool) {
	defer r.forgetSorting()
	if !r.bearsInTheEnd(q) {
		return Reserved{}, false
	}
	pes := r.environments(q.category)
	for k, pe := range pes {
		first, last, ok := r.earliestIn(q, pe)
		if !ok {
			continue
		}
		q = new(q.during(span{first, q.duration}))
		r.explainReservingParallel(*q, last, pe)
		pe = r.withFewestViolations(q, pe, pes[k+1:])
		a, ok := r.tryPE(q, pe)
		s := r.slotRange(q.category, pe)
		r.learn(&s, a.slots, ok)
		if !ok { // only the smallest number of slots is free, and the allocation rule does not allow it
			a, ok = r.tryPE(new(q.in(q.mode|fewest)), pe)
		}
		return Reserved{At: first, PE: pe, Grants: a.grants}, ok
	}
	return Reserved{}, false
}

// bearsInTheEnd reports whether a parallel job would have places after everything in the plan, with as
// many slots on each host as the load thresholds and job_load_adjustments allow now. Without them, Grid
// Engine reserves nothing, although it ignores the thresholds when it looks for a time (tested).
func (r *run) bearsInTheEnd(q *query) bool {
	if len(r.model.adjustments) == 0 {
		return true
	}
	end := q.in(q.mode | alarming)
	end.span = span{diagram.Forever - 1, 1}
	_, ok := r.bestAssignment(&end)
	return ok
}

// withFewestViolations returns the environment among pe and others in which the smallest number of
// slots violates the fewest soft requests.
func (r *run) withFewestViolations(q *query, pe PEID, others []PEID) PEID {
	if !q.category.isSoft() {
		return pe
	}
	few := q.in(q.mode | fewest)
	best, _ := r.tryPE(&few, pe)
	for _, other := range others {
		if a, ok := r.tryPE(&few, other); ok && a.soft < best.soft {
			best = a
		}
	}
	return best.pe
}

// earliestIn returns the first time from which on a parallel job has places in an environment, and
// the last time that it tries. Like the original, it tries the times at which tasks have started, too
// (tested): the result is in the past if only the allocation rule prevents a start with the smallest
// number of slots.
func (r *run) earliestIn(q *query, pe PEID) (first, last int64, ok bool) {
	possible := func(t int64) bool {
		few := q.in(q.mode | fewest)
		few.start = t
		_, ok := r.tryPE(&few, pe)
		r.forgetSorting()
		return ok
	}
	if !q.category.isSoft() {
		l := r.newLookBack(q, pe)
		if l == nil {
			return 0, 0, false
		}
		possible = l.possible
	}
	const always = -1 // before all other times
	for t := range diagram.Events(always, r.plan.all()) {
		if !possible(t) {
			break
		}
		if first = t; !ok {
			last, ok = t, true
		}
	}
	return first, last, ok
}

// all returns the diagrams. Their order does not matter.
func (p *plan) all() iter.Seq[*diagram.Diagram] {
	return func(yield func(*diagram.Diagram) bool) {
		if !yield(&p.coreTimes) {
			return
		}
		for _, d := range p.diagrams.list {
			if !yield(d) {
				return
			}
		}
		for d := range maps.Values(p.quotas) {
			if !yield(d) {
				return
			}
		}
	}
}

// reservable returns the instances in which a reservation can be made, including instances that are
// full now or closed by a calendar. Grid Engine sorts its list once per run, for the first serial
// job or the first reservation: for that job, full instances are in their sorted places, and for
// later jobs they are at the end (tested).
func (r *run) reservable() iter.Seq[InstanceID] {
	list := slices.AppendSeq(slices.Clone(r.postponed), r.order.all())
	if r.mixed {
		for _, id := range r.postponed {
			r.order.at[id].load, r.order.at[id].tier = r.loadOf(id), 0
		}
		slices.SortFunc(r.order.full, r.order.compare)
		slices.SortFunc(list, r.order.compare)
	} else {
		list = append(list[len(r.postponed):], r.postponed...)
	}
	return slices.Values(list)
}

// sort notes that the current job has the list sorted, see reservable.
func (r *run) sort() {
	r.mixed = r.mixed || !r.sorted
	r.sorted = true
}

// separate drops instances after a reservation. During a reservation Grid Engine appends the
// dropped instances to the list, and then drops them again. It drops instances closed by a calendar
// as suspended ones, and reports that once (tested).
func (r *run) separate() {
	if r.separated || r.order.count == 0 {
		return // if nothing is left, there are no reasons about single instances
	}
	r.separated = true
	for _, id := range r.postponed {
		if r.instances[id].status&(unavailable|DisabledByCalendar) != 0 {
			r.decisions.Dropped = append(r.decisions.Dropped, Reason{kind: droppedSuspended, place: int32(id), model: r.model})
		}
	}
}
