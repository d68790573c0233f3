package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/diagram"
)

// lookBack looks for the places of a parallel job in an environment at successively earlier times;
// the smallest number of slots suffices. Little changes from one time to the next, so it stores the
// offers of hosts and reuses them while they stay the same.
type lookBack struct {
	*run
	query  query // for any time
	slots  int
	in     *lookBackIn
	simple bool // see isSimple
	plain  bool // the job only takes slots, and the places offer nothing else
}

// lookBackIn holds the offers of the hosts of one parallel environment, for a lookBack.
type lookBackIn struct {
	pe     PEID
	offers []offer
	groups hostGroups // of each offer: the instances that the job may use
	since  []int64    // for each offer: the time since which it is the same
	all    int        // slots that there are at most
	plain  []bool     // of each offer: only the numbers of slots change
	looked bool
}

// newLookBack returns the lookBack for jobs without soft requests; nil if the environment never has
// places for the job.
func (r *run) newLookBack(q *query, pe PEID) *lookBack {
	c := q.category
	l := &lookBack{run: r, query: q.in(q.mode | fewest), slots: c.requests.Slots.First(), in: &r.lookedBack}
	if object := r.model.pes[pe].object; !c.allows(&r.model.pes[pe].access) || fewestSlots(c, object) == 0 || l.slots > object.Slots {
		return nil
	}
	l.in.pe, l.in.all, l.in.looked = pe, 0, false
	l.simple = l.isSimple()
	l.plain = l.simple && r.model.slots != None && !c.binds() &&
		!slices.ContainsFunc(c.hard, func(q request) bool { return r.model.attributes[q.attribute].consumable() })
	return l
}

// possible reports whether there are places from a time on.
func (l *lookBack) possible(t int64) bool {
	q := l.query.during(span{t, l.query.duration})
	defer l.forgetSorting()
	return l.globally(&q) && l.possibleIn(&q, l.in)
}

func (l *lookBack) possibleIn(q *query, in *lookBackIn) bool {
	if l.freeInPE(q, in.pe) < l.slots {
		return false
	}
	global, master := l.slotsAt(q, AtGlobal())
	if !master || global < l.slots {
		return false
	}
	if !in.looked {
		l.sortHosts()
		l.numbered = true
		l.lookFirst(q, in)
	}
	l.refreshOffers(q, in)
	if in.all < l.slots {
		return false
	}
	if l.simple {
		return l.enough(in)
	}
	_, ok := l.place(q, in.pe, l.slots, in.offers)
	return ok
}

// lookFirst finds the hosts, in the order in which they are tried.
func (l *lookBack) lookFirst(q *query, in *lookBackIn) {
	in.looked = true
	l.group(q, in.pe, &in.groups)
	n := len(in.groups.hosts)
	in.offers, in.since, in.plain = grown(in.offers, n)[:n], grown(in.since, n), grown(in.plain, n)
	for k, host := range in.groups.hosts {
		in.offers[k] = offer{host: host, queues: in.offers[k].queues[:0]}
		in.since[k] = diagram.Forever
	}
}

// refreshOffers computes the offers of hosts again that differ from those at a later time.
func (l *lookBack) refreshOffers(q *query, in *lookBackIn) {
	for k := range in.offers {
		if in.since[k] <= q.start {
			continue
		}
		o := &in.offers[k]
		in.all -= o.slots
		l.plan.since = 0
		if in.plain[k] && in.since[k] != diagram.Forever {
			in.all += l.countSlots(q, o)
			in.since[k] = l.plan.since
			continue
		}
		*o = l.offerAt(q, in.pe, o.host, in.groups.at(k), o.queues)
		in.all += l.limitOffer(q, o)
		in.since[k] = l.plan.since
		if q.category.binds() {
			in.since[k] = q.start
		}
		if in.plain[k] = l.isPlain(o, in.groups.at(k)); in.plain[k] {
			l.keepSuitable(q, o, in.groups.at(k))
		}
	}
}

// isPlain reports whether only the slots of its queue instances can change a host's offer to the
// job.
func (l *lookBack) isPlain(o *offer, instances []InstanceID) bool {
	used := func(s setting) bool {
		return s.attribute != l.model.slots && l.model.attributes[s.attribute].consumable()
	}
	return l.plain && !slices.ContainsFunc(l.model.hosts[o.host].settings, func(s setting) bool { return l.model.attributes[s.attribute].consumable() }) &&
		!slices.ContainsFunc(instances, func(id InstanceID) bool { return slices.ContainsFunc(l.model.instances[id].layer.settings, used) })
}

// keepSuitable makes a plain host's offer list all instances that the job could use if they had
// free slots.
func (l *lookBack) keepSuitable(q *query, o *offer, instances []InstanceID) {
	c := q.category
	suits := func(p Place) bool {
		for i := range c.hard {
			if !l.explicit(q, &c.hard[i], p) {
				return false
			}
		}
		return true
	}
	o.queues = o.queues[:0]
	if suits(AtHost(o.host)) {
		for _, id := range instances {
			if suits(AtInstance(id)) {
				o.queues = append(o.queues, queueOffer{id: id, master: l.mayBeMaster(c, id)})
			}
		}
	}
	l.countSlots(q, o)
}

// countSlots counts the free slots of a plain host.
func (l *lookBack) countSlots(q *query, o *offer) int {
	o.slots = 0
	for i := range o.queues {
		in := &o.queues[i]
		in.slots = l.wholeSlots(q, AtInstance(in.id), l.model.slots, 1)
		o.slots += in.slots
	}
	return o.slots
}

// isSimple reports whether only the numbers of slots decide: every instance has a place for the
// master task, and no quota applies.
func (l *lookBack) isSimple() bool {
	c := l.query.category
	if len(c.masterQueues) > 0 || !l.query.is(exempt) && !l.model.limits.sets.IsEmpty() {
		return false
	}
	return !slices.ContainsFunc(c.hard, func(q request) bool { return l.model.attributes[q.attribute].perJob() }) &&
		!slices.ContainsFunc(l.model.attributes, func(a Attribute) bool { return a.perJob() && a.Default.Number() != 0 })
}

// enough applies the allocation rule (sge_pe(5)) to the numbers of slots.
func (l *lookBack) enough(in *lookBackIn) bool {
	rule := l.model.pes[in.pe].object.AllocationRule
	if rule.Name == qconf.FillUp || rule.Name == qconf.RoundRobin {
		return true // there are as many as that on all hosts together
	}
	n, per := 0, slotsPerHost(rule, l.slots)
	for k := range in.offers {
		if in.offers[k].slots >= per {
			if n += per; n >= l.slots {
				return true
			}
		}
	}
	return false
}
