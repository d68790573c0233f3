package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
)

// ending counts the slots that a parallel job with -R y would get after the end of everything in the plan, while its
// present slots are collected in turns ($round_robin). Grid Engine counts both. Slots that are taken of a queue
// instance are not subtracted from those at the end, but they are from the quotas at the end. So each turn takes from
// the quotas, and where nothing is left now and later, the queue instance becomes useless for all numbers of the range
// (tested). A nil ending counts nothing.
type ending struct {
	query  query
	quotas slotQuotas
	offers map[HostID]*offer
	slots  int
	master bool
}

// newEnding returns the ending for a number of slots, or nil if nothing would become useless.
func (p *placing) newEnding() *ending {
	q, r := p.query, p.run
	if p.noting == nil || p.noting.careless || !q.is(starting) || !r.mayReserve(q.job) || r.model.limits.sets.IsEmpty() ||
		r.model.pes[p.a.pe].object.AllocationRule.Name != qconf.RoundRobin {
		return nil
	}
	e := &ending{query: q.in(later), offers: map[HostID]*offer{}}
	e.query.span = atTheEnd
	e.quotas.begin(r, &e.query, p.a.pe)
	return e
}

// offerAtEnd returns the slots of a host at the end, in its usable and full queue instances.
func (p *placing) offerAtEnd(host HostID) *offer {
	e := p.end
	if o := e.offers[host]; o != nil {
		return o
	}
	var list []InstanceID
	for _, id := range p.model.hosts[host].instances {
		if (p.order.usable(id) || p.order.at[id].full) && p.parallelStatic(&e.query, id, p.a.pe) {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, p.order.compare)
	o := p.offerAt(&e.query, p.a.pe, host, list, nil)
	e.offers[host] = &o
	return &o
}

// tag compares a host with the present quotas and with those at the end before slots are taken of it. It reports whether the
// host has slots at the end, and notes queue instances that have none at either time.
func (p *placing) tag(now *offer) bool {
	end, later := p.offerAtEnd(now.host), false
	for k := range end.queues {
		q := &end.queues[k]
		if q.barred = p.noting.skipsInstance(q.id); q.barred {
			continue
		}
		free := 0
		if i := slices.IndexFunc(now.queues, func(o queueOffer) bool { return o.id == q.id }); i >= 0 {
			if free = now.queues[i].slots; now.taken > 0 {
				free -= now.queues[i].taken
			}
			left, _ := p.quotas.left(q.id, false)
			free = min(free, left)
		}
		left, _ := p.end.quotas.left(q.id, false)
		q.taken = min(q.slots, left) // slots of this turn
		later = later || q.taken > 0
		if free <= 0 && q.taken <= 0 {
			p.noting.noteSpent(q.id)
		}
	}
	return later && end.slots > 0
}

// takeAtEnd takes a slot of a host at the end. It reports whether there was one.
func (p *placing) takeAtEnd(host HostID) bool {
	e := p.end
	for k := range e.offers[host].queues {
		q := &e.offers[host].queues[k]
		if q.barred || q.taken <= 0 || !e.master && !q.master && e.slots+1 == p.want {
			continue
		}
		if left, _ := e.quotas.left(q.id, false); left <= 0 {
			continue
		}
		e.quotas.take(q.id, 1)
		e.slots++
		e.master = e.master || q.master
		if e.slots >= p.want && e.master {
			p.end, p.noting.careless = nil, true
		}
		return true
	}
	return false
}
