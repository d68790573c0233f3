package scheduler

import (
	"math"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/diagram"
	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/value"
)

// assignment is the places of a parallel job, as they are found.
type assignment struct {
	pe     PEID
	grants []Grant
	slots  int
	soft   int // violations of soft requests
	most   int // slots that were found on one host where they were too few
}

// offer is what a host has for a parallel job.
type offer struct {
	host   HostID
	slots  int // of all instances together
	master bool
	queues []queueOffer // in the order in which they are filled
	taken  int
}

type queueOffer struct {
	id     InstanceID
	slots  int
	master bool // the master task may run here
	soft   int  // violations of soft requests
}

// assignParallel finds the places of a parallel job that starts at a time: of all
// environments that its pattern means the one with the most slots, and among these the one
// with the fewest violations of soft requests.
func (r *run) assignParallel(j *Job, at span) (Start, bool) {
	best, ok := r.bestAssignment(j, at, false)
	if !ok {
		return Start{}, false
	}
	return Start{PE: best.pe, Grants: best.grants, Duration: r.plannedDuration(j.Category)}, true
}

// bestAssignment tries the environments. With fewest set, the smallest number of slots
// that the job takes is enough.
func (r *run) bestAssignment(j *Job, at span, fewest bool) (assignment, bool) {
	c := j.Category
	var best assignment
	if !r.globally(c, at) {
		return best, false
	}
	found := false
	for _, pe := range c.pes {
		if !c.allows(&r.model.pes[pe].access) {
			continue
		}
		a, ok := r.largest(j, pe, at, fewest)
		if ok && (!found || a.slots > best.slots || a.slots == best.slots && a.soft < best.soft) {
			best, found = a, true
		}
	}
	return best, found
}

// largest finds the largest number of slots of the job's range that an environment has
// places for. The original searches the range in one of several ways (PE_RANGE_ALG) that
// all end there.
func (r *run) largest(j *Job, pe PEID, at span, fewest bool) (assignment, bool) {
	c := j.Category
	rule := r.model.pes[pe].object.AllocationRule
	free := r.freeInPE(pe, at)
	n := c.requests.Slots.AtMost(free)
	if fewest {
		n = c.requests.Slots.First()
		if n > free {
			n = 0
		}
	}
	offers, all := r.offers(j, pe, at)
	for n > 0 {
		if rule.PerHost > 0 && n%rule.PerHost != 0 {
			n = c.requests.Slots.AtMost(n - 1)
			continue
		}
		if n > all {
			n = c.requests.Slots.AtMost(all)
			continue
		}
		a, ok := r.place(j, pe, n, offers, at)
		if ok {
			return a, true
		}
		// What could be collected for more is all there is.
		n = c.requests.Slots.AtMost(min(n-1, max(a.slots, a.most)))
	}
	return assignment{}, false
}

// freeInPE is how many slots an environment has left for a time.
func (r *run) freeInPE(pe PEID, at span) int {
	total := r.model.pes[pe].object.Slots
	if r.empty {
		return total
	}
	if r.plan != nil {
		return int(r.plan.left(peResource(pe), float64(total), at))
	}
	return total - r.peUsed[pe]
}

// offers finds what each host has for a job, in the order of the best instance of each.
// all is the number of slots that there are at most.
func (r *run) offers(j *Job, pe PEID, at span) (list []offer, all int) {
	c := j.Category
	if r.hostOffer == nil {
		r.hostOffer = make([]int32, len(r.model.hosts))
	}
	global, master := r.slotsAt(c, AtGlobal(), at)
	if !master {
		return nil, 0
	}
	for id := range r.instancesFor(j) {
		i := &r.model.instances[id]
		if !r.parallelStatic(j, id, pe) {
			continue
		}
		k := r.hostOffer[i.host] - 1
		if k < 0 {
			slots, master := r.slotsAt(c, AtHost(i.host), at)
			slots = r.coresFor(c, i.host, at, slots)
			list = append(list, offer{host: i.host, slots: slots, master: master})
			k = int32(len(list) - 1)
			r.hostOffer[i.host] = k + 1
		}
		o := &list[k]
		if o.slots == 0 {
			continue
		}
		slots, master := r.slotsAt(c, AtInstance(id), at)
		if slots == 0 {
			continue
		}
		q := queueOffer{id: id, slots: slots, master: master && o.master && r.mayBeMaster(c, id), soft: r.violations(c, id)}
		if len(c.masterQueues) > 0 && len(c.queues) > 0 && !r.inList(c, id) {
			q.slots = min(q.slots, 1) // it is there for the master task only
			if !q.master {
				continue
			}
		}
		o.queues = append(o.queues, q)
	}
	for k := range list {
		r.hostOffer[list[k].host] = 0
		all += r.limitOffer(&list[k])
	}
	return list, min(all, global)
}

// limitOffer takes an offer down to what the instances have together, and to what the
// load thresholds leave.
func (r *run) limitOffer(o *offer) int {
	sum := 0
	for _, q := range o.queues {
		sum += q.slots
	}
	o.slots = min(o.slots, sum)
	if len(r.model.adjustments) == 0 || r.empty || r.reserving {
		return o.slots
	}
	// All queues of the host count, whether the job can use them or not (tested).
	room := 0
	for _, id := range r.model.hosts[o.host].instances {
		if r.order.usable(id) {
			room = max(room, r.headroom(id))
		}
	}
	o.slots = min(o.slots, room)
	return o.slots
}

// parallelStatic is staticallyFits for a parallel job in an environment.
func (r *run) parallelStatic(j *Job, id InstanceID, pe PEID) bool {
	return slices.Contains(r.model.instances[id].pes, r.model.pes[pe].object.Name) &&
		!r.unclean(j, id) && !r.shuns(id) && r.staticallyFits(j.Category, id)
}

// place spreads so many slots over the hosts by the allocation rule (sge_pe(5)). Where
// that fails, the assignment has the number of slots that could be collected.
func (r *run) place(j *Job, pe PEID, want int, offers []offer, at span) (assignment, bool) {
	p := placing{run: r, category: j.Category, want: want, a: assignment{pe: pe}, at: at, exempt: r.exempt}
	usage := r.quotas.usage
	if r.empty || r.plan != nil {
		usage = nil
	}
	p.quotas.Reset(j.Category.demand(pe), usage, r.quotaValue)
	if r.plan != nil {
		p.taken = map[quota.Counter]float64{}
	}
	for k := range offers {
		offers[k].taken = 0
	}
	p.spread(r.model.pes[pe].object.AllocationRule, offers)
	if r.explain != nil && !p.full() && !p.exempt {
		p.explainExhausted(offers)
	}
	return p.a, p.a.slots == want && p.master
}

// placing is the placing of a parallel job on hosts.
type placing struct {
	*run
	category *Category
	quotas   quota.Collector
	at       span
	taken    map[quota.Counter]float64 // of quotas, where the run plans ahead
	want     int
	a        assignment
	exempt   bool // from quotas
	master   bool // there is a place for the master task
	visited  bool // the first host has been visited
}

func (p *placing) spread(rule qconf.AllocationRule, offers []offer) {
	switch rule.Name {
	case qconf.FillUp:
		for k := range offers {
			if p.full() {
				return
			}
			p.take(&offers[k], 1, p.want-p.a.slots)
		}
	case qconf.RoundRobin:
		for progress := true; progress && !p.full(); {
			progress = false
			for k := range offers {
				if p.full() {
					return
				}
				progress = p.take(&offers[k], 1, 1) || progress
			}
		}
	default:
		per := rule.PerHost
		if rule.Name == qconf.PESlots {
			per = p.want
		}
		for k := range offers {
			if p.full() {
				return
			}
			p.take(&offers[k], per, per)
		}
	}
}

func (p *placing) full() bool { return p.a.slots >= p.want }

// take takes between least and most slots from a host, filling its instances in their
// order. If the host has less than the least, nothing is taken.
func (p *placing) take(o *offer, least, most int) bool {
	if free := o.slots - o.taken; free < least {
		p.a.most = max(p.a.most, free)
		return false
	}
	most = min(most, o.slots-o.taken, p.want-p.a.slots)
	mark, before, soft := p.quotas.Mark(), slices.Clone(p.a.grants), p.a.soft
	hadMaster, got := p.master, 0
	first := !p.visited
	host := int32(o.host)
	for k := range o.queues {
		if got == most {
			break
		}
		q := &o.queues[k]
		n := min(q.slots-p.granted(q.id), most-got)
		if !p.master && !q.master {
			// The last slot is kept for the master task.
			n = min(n, p.want-p.a.slots-got-1)
		}
		if n > 0 && !p.exempt {
			left, _ := p.quotas.Left(int32(p.model.instances[q.id].queue), host, q.master && !p.master)
			n = min(n, left, p.plannedQuota(q.id))
		}
		if n <= 0 {
			continue
		}
		if !p.exempt {
			p.quotas.Take(int32(p.model.instances[q.id].queue), host, n)
			p.takePlanned(q.id, float64(n))
		}
		p.grant(q, n, first)
		got += n
	}
	if got < least {
		if !p.exempt {
			p.quotas.Undo(mark)
			p.takenBack(before)
		}
		p.a.grants, p.a.soft, p.master = before, soft, hadMaster
		p.a.most = max(p.a.most, got)
		return false
	}
	p.visited = true
	o.taken += got
	p.a.slots += got
	return true
}

// plannedQuota is how many slots the quotas leave at an instance for the time of the job.
func (p *placing) plannedQuota(id InstanceID) int {
	n := math.MaxInt32
	if p.plan == nil {
		return n
	}
	for _, claim := range p.claims(p.category, p.a.pe, id) {
		if !claim.Once {
			n = min(n, p.claimSlots(&claim, p.at, p.taken[claim.Counter]))
		}
	}
	return n
}

// explainExhausted says which quotas leave nothing beside the slots that were collected.
func (p *placing) explainExhausted(offers []offer) {
	for k := range offers {
		for _, q := range offers[k].queues {
			i := &p.model.instances[q.id]
			left, failure := p.quotas.Left(int32(i.queue), int32(i.host), false)
			if left == 0 {
				p.because(Reason{kind: quotaExceeded, text: failure.Text()}, p.category)
				return
			}
			if p.plan == nil {
				continue
			}
			for _, claim := range p.claims(p.category, p.a.pe, q.id) {
				if !claim.Once && p.claimSlots(&claim, p.at, p.taken[claim.Counter]) == 0 {
					failure = p.category.demand(p.a.pe).Failure(&claim, p.quotaValue, int32(i.queue), int32(i.host))
					p.because(Reason{kind: quotaExceeded, text: failure.Text()}, p.category)
					return
				}
			}
		}
	}
}

func (p *placing) takePlanned(id InstanceID, slots float64) {
	if p.plan == nil {
		return
	}
	for _, claim := range p.claims(p.category, p.a.pe, id) {
		if !claim.Once && !claim.Exclusive {
			p.taken[claim.Counter] += slots * claim.Each
		}
	}
}

// takenBack counts anew what the grants take that are left.
func (p *placing) takenBack(grants []Grant) {
	clear(p.taken)
	for _, g := range grants {
		p.takePlanned(g.Instance, float64(g.Slots))
	}
}

func (p *placing) granted(id InstanceID) int {
	for i := range p.a.grants {
		if p.a.grants[i].Instance == id {
			return p.a.grants[i].Slots
		}
	}
	return 0
}

// grant adds slots of an instance. The master comes first: the instance in which the
// master task may run that was found first, or, of several on the first host, the last
// one, as the original has it.
func (p *placing) grant(q *queueOffer, n int, first bool) {
	for i := range p.a.grants {
		if p.a.grants[i].Instance == q.id {
			p.a.grants[i].Slots += n
			return
		}
	}
	g := Grant{Instance: q.id, Slots: n}
	p.a.soft += q.soft
	switch {
	case q.master && (!p.master || first):
		p.a.grants = slices.Insert(p.a.grants, 0, g)
	default:
		p.a.grants = append(p.a.grants, g)
	}
	p.master = p.master || q.master
}

// slotsAt is how many slots of a parallel job a place can have, and whether it has what
// the master task needs in addition: consumables of the kind JOB.
func (m *matcher) slotsAt(c *Category, p Place, at span) (slots int, master bool) {
	slots, master = math.MaxInt32, true
	limit := func(id AttributeID, amount float64, implied bool) bool {
		a := &m.model.attributes[id]
		if a.perJob() {
			quiet := matcher{view: m.view, plan: m.plan}
			if !quiet.consume(c, p, id, amount, at, implied) {
				master = false
			}
			return true
		}
		if amount <= 0 {
			return true
		}
		// At the cluster it is not known yet for how many hosts: there is to be enough for one
		// on each.
		if a.perHost() && p.layer != atGlobal {
			return m.consume(c, p, id, amount, at, implied)
		}
		slots = min(slots, m.wholeSlots(p, id, amount, at))
		return slots > 0 || m.consume(c, p, id, amount, at, implied)
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
			if !m.shared(c, p, id, at, true) {
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
		} else if !m.explicit(c, r, p, at) {
			return 0, false
		}
	}
	return slots, master
}

// wholeSlots is for how many slots what is left of a consumable is enough.
func (m *matcher) wholeSlots(p Place, id AttributeID, each float64, at span) int {
	capacity, ok := m.capacity(p, id)
	switch {
	case !ok || !m.bearable(p, id, each):
		return 0
	case m.plan != nil:
		return m.plan.diagrams[resource{place: p, attribute: id}].Max(at.start, at.until()).Slots(capacity, each, math.MaxInt32)
	case m.empty:
		return value.Amount{}.Slots(capacity, each, math.MaxInt32)
	}
	return m.used.at(p, id).amount.Slots(capacity, each, math.MaxInt32)
}

// explainParallel finds the reasons why a parallel job has no place.
func (r *run) explainParallel(j *Job, at span) {
	c := j.Category
	for _, pe := range c.pes {
		if !c.allows(&r.model.pes[pe].access) {
			r.because(Reason{kind: noPEAccess, place: int32(pe)}, c)
			r.because(Reason{kind: peSlots, place: int32(pe)}, c)
			continue
		}
		r.explainPE(j, pe, at)
	}
	if len(c.pes) == 0 {
		r.because(Reason{kind: noMatchingPE}, c)
	}
}

// explainPE finds the reasons why a parallel job has no place in an environment: what the
// environment and the cluster leave, then what cluster queues refuse, then instance by
// instance.
func (r *run) explainPE(j *Job, pe PEID, at span) {
	c, object := j.Category, r.model.pes[pe].object
	least := c.requests.Slots.First()
	if least > object.Slots {
		r.because(Reason{kind: peTotal, place: int32(pe)}, c)
		return
	}
	offers := func(slots int) { r.because(Reason{kind: peSlots, place: int32(pe), number: max(slots, 0)}, c) }
	if free := r.freeInPE(pe, at); free < least {
		offers(free)
		return
	}
	if !r.possible(c, object) || !r.globally(c, at) {
		offers(0)
		return
	}
	quiet := matcher{view: r.view, plan: r.plan}
	if slots, _ := quiet.slotsAt(c, AtGlobal(), at); slots < least {
		// What is said is how many there would be if nothing else ran, unless there is
		// nothing at all (tested).
		if most := r.atMost(c); slots > 0 || r.plan != nil && most > 0 {
			offers(most)
			return
		}
		r.slotsAt(c, AtGlobal(), at)
		offers(0)
		return
	}
	skip := newSkips(r.model)
	usable := make([]bool, len(r.model.queues))
	for id := range r.instancesFor(j) {
		usable[r.model.instances[id].queue] = true
	}
	for id := range r.model.queues {
		skip.queues[id] = !usable[id] || !r.queueStatic(c, QueueID(id)) || !r.queueOffersPE(c, QueueID(id), object.Name)
	}
	for id := range r.instancesFor(j) {
		r.explainParallelInstance(j, id, pe, at, skip)
		if skip.all {
			break
		}
	}
	offers(r.collected(j, pe, at))
}

// atMost is how many slots the cluster would have for a job if nothing else ran.
func (r *run) atMost(c *Category) int {
	empty := *r.view
	empty.empty = true
	quiet := matcher{view: &empty}
	n, _ := quiet.slotsAt(c, AtGlobal(), span{})
	return n
}

// possible reports whether any number of slots that the job takes can be spread by the
// allocation rule.
func (r *run) possible(c *Category, pe *qconf.ParallelEnvironment) bool {
	if pe.AllocationRule.PerHost <= 1 {
		return true
	}
	for n := c.requests.Slots.AtMost(pe.Slots); n > 0; n = c.requests.Slots.AtMost(n - 1) {
		if n%pe.AllocationRule.PerHost == 0 {
			return true
		}
	}
	return false
}

// explainParallelInstance finds the reason against an instance, and that against its host,
// once for each host: first the host, then what is fixed about the instance, then the
// quotas, then what the instance has left.
func (r *run) explainParallelInstance(j *Job, id InstanceID, pe PEID, at span, skip *skips) {
	c, i := j.Category, &r.model.instances[id]
	if skip.hosts[i.host] {
		return
	}
	if r.unclean(j, id) {
		r.because(Reason{kind: uncleanHost, place: int32(i.host)}, c)
		skip.hosts[i.host] = true
		return
	}
	if !r.hostStatic(c, i.host) {
		skip.hosts[i.host] = true
		return
	}
	if !skip.exhausted[i.host] {
		n, _ := r.slotsAt(c, AtHost(i.host), at)
		skip.exhausted[i.host] = r.coresFor(c, i.host, at, n) == 0 && !r.later(c, i.host)
	}
	if skip.exhausted[i.host] || skip.queues[i.queue] || skip.quota(i) || !r.instanceStatic(c, id, pe) {
		return
	}
	if !r.explainQuota(c, pe, i, skip) {
		r.slotsAt(c, AtInstance(id), at)
	}
}

// later reports whether a host will have slots when all that is planned is over.
func (r *run) later(c *Category, id HostID) bool {
	if r.plan == nil {
		return false
	}
	quiet := matcher{view: r.view, plan: r.plan}
	n, _ := quiet.slotsAt(c, AtHost(id), span{diagram.Forever - 1, 1})
	return n > 0
}

// explainQuota says so where the quotas leave no slot at an instance.
func (r *run) explainQuota(c *Category, pe PEID, i *instanceModel, skip *skips) bool {
	usage := r.quotas.usage
	if r.empty {
		usage = nil
	}
	var q quota.Collector
	q.Reset(c.demand(pe), usage, r.quotaValue)
	left, failure := q.Left(int32(i.queue), int32(i.host), true)
	if left > 0 {
		return false
	}
	skip.quotas = append(skip.quotas, failure)
	skip.all = failure.Everywhere
	return !r.because(Reason{kind: quotaExceeded, text: failure.Text()}, c)
}

// queueOffersPE checks that any variant of a cluster queue offers the environment.
func (r *run) queueOffersPE(c *Category, id QueueID, name string) bool {
	for i := range r.model.queues[id].variants {
		if slices.Contains(r.model.queues[id].variants[i].pes, name) {
			return true
		}
	}
	return r.because(Reason{kind: notInPEList, place: int32(id), text: name}, c)
}

// collected is how many slots were found for the smallest number that the job takes.
func (r *run) collected(j *Job, pe PEID, at span) int {
	explain := r.explain
	r.explain = nil
	offers, _ := r.offers(j, pe, at)
	r.explain = explain
	a, _ := r.place(j, pe, j.Category.requests.Slots.First(), offers, at)
	return a.slots
}
