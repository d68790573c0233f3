package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
)

// place distributes slots over the hosts by the allocation rule (sge_pe(5)). If that fails, the
// assignment holds the number of slots that could be collected.
func (r *run) place(q *query, pe PEID, want int, offers []offer) (assignment, bool) {
	return r.placeNoting(q, pe, want, offers, nil)
}

// placeNoting does what place does. It skips and notes useless places, unless n is nil.
func (r *run) placeNoting(q *query, pe PEID, want int, offers []offer, n *noting) (assignment, bool) {
	p := placing{run: r, noting: n, query: q, category: q.category, want: want, a: assignment{pe: pe}}
	p.quotas.begin(r, q, pe)
	p.end = p.newEnding()
	for k := range offers {
		offers[k].taken, offers[k].looked = 0, false
	}
	p.spread(r.model.pes[pe].object.AllocationRule, offers)
	if q.trace != nil && !p.full() {
		p.explainExhausted(p.leftOver(r.model.pes[pe].object.AllocationRule, offers))
	}
	return p.a, p.a.slots == want && p.master
}

// placing is the placing of a parallel job on hosts.
type placing struct {
	*run
	noting   *noting // nil if no places are noted
	query    *query
	category *Category
	quotas   slotQuotas
	want     int
	a        assignment
	master   bool // there is a place for the master task
	least    int
	visited  bool // the first host has been visited
	inFront  int  // number of grants that were inserted in front of the others
	// sortedQueues and sortedHosts are ruled out by quotas that failed at other places; nil until one fails.
	sortedQueues, sortedHosts []bool
	end                       *ending
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
				progress = p.takeTurn(&offers[k]) || progress
			}
		}
	default:
		per := slotsPerHost(rule, p.want)
		p.least = per
		for k := range offers {
			if p.full() {
				return
			}
			p.take(&offers[k], per, per)
		}
	}
}

// takeTurn takes a slot of a host, and counts one at the end. It reports whether there was any.
func (p *placing) takeTurn(o *offer) bool {
	if p.end == nil || p.skips(o.host) {
		return p.take(o, 1, 1)
	}
	later := p.tag(o)
	taken := p.take(o, 1, 1)
	return later && p.end != nil && p.takeAtEnd(o.host) || taken
}

// slotsPerHost returns the minimum number of slots that a parallel job with this number of slots
// needs on each of its hosts. For reservations, Grid Engine first looks for the smallest number of
// slots in the job's range, even if the allocation rule does not allow it: then it looks for one slot
// per host (tested).
func slotsPerHost(rule qconf.AllocationRule, slots int) int {
	switch per := rule.PerHost; {
	case rule.Name == qconf.PESlots:
		return slots
	case per > 0 && slots%per == 0:
		return per
	}
	return 1
}

func (p *placing) full() bool { return p.a.slots >= p.want }

// takeHost takes what the allocation rule allows from a host and its instances.
func (p *placing) takeHost(host HostID, instances []InstanceID) {
	if p == nil || p.full() {
		return
	}
	o := p.offerAt(p.query, p.a.pe, host, instances, nil)
	p.limitOffer(p.query, &o)
	switch rule := p.model.pes[p.a.pe].object.AllocationRule; rule.Name {
	case qconf.FillUp:
		p.take(&o, 1, p.want-p.a.slots)
	case qconf.RoundRobin:
		p.take(&o, 1, 1)
	default:
		per := slotsPerHost(rule, p.want)
		p.take(&o, per, per)
	}
}

// take takes between least and most slots from a host, filling its instances in their
// order. If the host has less than the least, nothing is taken.
func (p *placing) take(o *offer, least, most int) bool {
	if !o.looked && p.skips(o.host) {
		return false
	}
	p.lookAtQuotas(o)
	if free := o.slots - o.taken; free < least {
		p.a.most = max(p.a.most, free)
		p.noteTooFew(o)
		return false
	}
	most = min(most, o.slots-o.taken, p.want-p.a.slots)
	mark, soft := p.quotas.mark(), p.a.soft
	var before []Grant // may have to be restored
	if least > 1 {
		before = slices.Clone(p.a.grants)
	}
	if o.taken == 0 {
		for k := range o.queues {
			o.queues[k].taken = 0
		}
	}
	hadMaster, inFront, got := p.master, p.inFront, 0
	first := !p.visited
	for k := range o.queues {
		if got == most {
			break
		}
		q := &o.queues[k]
		if q.barred {
			continue
		}
		n := min(q.slots-q.taken, most-got)
		switch {
		case p.master:
		case !q.master: // the last slot is reserved for the master task
			n = min(n, p.want-p.a.slots-got-1)
		case q.unlisted: // Grid Engine takes more only for a job that has a place for its master task (tested)
			n = min(n, 1)
		}
		if n > 0 {
			left, _ := p.quotas.left(q.id, q.master && !p.master)
			p.a.limited = p.a.limited || left < n
			n = min(n, left)
		}
		if n <= 0 {
			continue
		}
		p.quotas.take(q.id, n)
		p.grant(q, n, first)
		got += n
	}
	if got < least {
		if got > 0 {
			p.quotas.undo(mark, before)
			p.a.grants, p.a.soft, p.master, p.inFront = before, soft, hadMaster, inFront
		}
		p.a.most = max(p.a.most, got)
		p.noteTooFew(o)
		return false
	}
	p.visited = true
	o.taken += got
	p.a.slots += got
	return true
}

// lookAtQuotas checks the quotas of all queues of a host when the host is used for the first time. They may rule
// out other places, even those for which another rule allows slots (tested), or be spoiled: see
// quota.Collector.Spoil.
func (p *placing) lookAtQuotas(o *offer) {
	if o.looked || p.model.limits.sets.IsEmpty() || p.query.is(exempt) {
		return
	}
	o.looked = true
	for k := range o.queues {
		q := &o.queues[k]
		i := &p.model.instances[q.id]
		if p.noting.skipsInstance(q.id) || p.ruledOut(i) {
			q.barred = true
			continue
		}
		q.barred = false
		p.quotas.meet(q.id, q.slots == 0)
		left, failure := p.quotas.left(q.id, false)
		if left > 0 {
			continue
		}
		p.a.limited = true
		if p.end != nil {
			if n, _ := p.end.quotas.left(q.id, false); n > 0 {
				continue
			}
		}
		p.noting.noteInstance(q.id)
		if p.sortedQueues == nil {
			p.sortedQueues, p.sortedHosts = make([]bool, len(p.model.queues)), make([]bool, len(p.model.hosts))
		}
		if failure.SortOut(int32(i.queue), int32(i.host), p.sortedQueues, p.sortedHosts) {
			failure.SortOutHosts(p.sortedHosts)
		}
	}
}

// ruledOut reports whether a quota has ruled out the cluster queue of an instance.
func (p *placing) ruledOut(i *instanceModel) bool {
	return p.sortedQueues != nil && p.sortedQueues[i.queue]
}

// skips reports whether a host is not tried.
func (p *placing) skips(id HostID) bool {
	return p.noting.skips(id) || p.sortedHosts != nil && p.sortedHosts[id]
}

// noteTooFew notes a host from which nothing was taken.
func (p *placing) noteTooFew(o *offer) {
	if o.taken == 0 {
		p.noting.noteHost(o.host)
	}
}

// spoils reports whether a queue instance differs in its own parameters, like h_rt or the
// name, from what a job requests: see quota.Collector.Spoil.
func (m *matcher) spoils(c *Category, id InstanceID) bool {
	if m.model.limits.sets.IsEmpty() {
		return false
	}
	for i := range c.hard {
		q := &c.hard[i]
		x, ok := m.model.builtin(&m.model.instances[id].variant, q.attribute)
		if ok && q.attribute != m.model.slots && !q.value.Match(m.model.attributes[q.attribute].Relop, x) {
			return true
		}
	}
	return false
}

// leftOver returns the offers that are checked after the last slot was collected: the offers after
// it, or if hosts are used in turns, all.
func (p *placing) leftOver(rule qconf.AllocationRule, offers []offer) []offer {
	if rule.Name == qconf.RoundRobin {
		return offers
	}
	for k, o := range slices.Backward(offers) {
		if o.taken == 0 {
			continue
		}
		return offers[k+1:]
	}
	return offers
}

// explainExhausted reports the quotas that allow no more than the collected slots.
func (p *placing) explainExhausted(offers []offer) {
	for k := range offers {
		if p.least > offers[k].slots {
			continue
		}
		for _, q := range offers[k].queues {
			if left, failure := p.quotas.left(q.id, false); left == 0 && !p.allowedLater(p.query, p.a.pe, q.id) {
				p.query.because(exceeded(&failure))
				return
			}
		}
	}
}

// grant adds slots of an instance. The master's instance comes first: the first instance found in
// which the master task may run, or of several on the first host, the last one, as in Grid Engine.
func (p *placing) grant(q *queueOffer, n int, first bool) {
	q.taken += n
	if q.taken > n {
		p.a.grants[q.grant+p.inFront].Slots += n
		return
	}
	g := Grant{Instance: q.id, Slots: n}
	p.a.soft += q.soft
	switch {
	case q.master && (!p.master || first):
		p.a.grants = slices.Insert(p.a.grants, 0, g)
		p.inFront++
		q.grant = -p.inFront
	default:
		q.grant = len(p.a.grants) - p.inFront
		p.a.grants = append(p.a.grants, g)
	}
	p.master = p.master || q.master
}
