package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/diagram"
)

// lookBack looks for the places of a parallel job at one time after the other, each earlier
// than the one before: the smallest number of slots is enough. From one time to the next little
// changes, so that what hosts have for the job is kept for as long as it stays as it is.
type lookBack struct {
	*run
	job      *Job
	slots    int
	duration int64
	in       []*lookBackIn
	simple   bool // see isSimple
	plain    bool // the job takes nothing but slots of any place that has nothing else
}

// lookBackIn is that in one parallel environment.
type lookBackIn struct {
	pe        PEID
	offers    []offer
	instances [][]InstanceID // of each offer: all that the job may use
	since     []int64        // of each offer: since when it is as it is
	all       int            // slots that there are at most
	plain     []bool         // of each offer: only the numbers of slots change
	looked    bool
}

// newLookBack is for jobs without soft requests.
func (r *run) newLookBack(j *Job) *lookBack {
	l := &lookBack{run: r, job: j, slots: j.Category.requests.Slots.First(), duration: r.duration(j.Category)}
	for _, pe := range j.Category.pes {
		per := r.model.pes[pe].object.AllocationRule.PerHost
		if !j.Category.allows(&r.model.pes[pe].access) || per > 0 && l.slots%per != 0 {
			continue
		}
		// Those of the last search have the memory that is needed.
		if n := len(l.in); n == len(r.lookedBack) {
			r.lookedBack = append(r.lookedBack, &lookBackIn{})
		}
		in := r.lookedBack[len(l.in)]
		in.pe, in.all, in.looked = pe, 0, false
		l.in = append(l.in, in)
	}
	l.simple = l.isSimple()
	l.plain = l.simple && r.model.slots != None && !j.Category.binds() &&
		!slices.ContainsFunc(j.Category.hard, func(q request) bool { return r.model.attributes[q.attribute].consumable() })
	return l
}

// possible reports whether there are places from a time on.
func (l *lookBack) possible(t int64) bool {
	at := span{t, l.duration}
	defer l.forgetSorting()
	if !l.globally(l.job.Category, at) {
		return false
	}
	for _, in := range l.in {
		if l.possibleIn(in, at) {
			return true
		}
	}
	return false
}

func (l *lookBack) possibleIn(in *lookBackIn, at span) bool {
	if l.freeInPE(in.pe, at) < l.slots {
		return false
	}
	global, master := l.slotsAt(l.job.Category, AtGlobal(), at)
	if !master || global < l.slots {
		return false
	}
	if !in.looked {
		l.sortHosts()
		l.numbered = true
		l.lookFirst(in)
	}
	l.refreshOffers(in, at)
	if in.all < l.slots {
		return false
	}
	if l.simple {
		return l.enough(in)
	}
	_, ok := l.place(l.job, in.pe, l.slots, in.offers, at)
	return ok
}

// lookFirst finds the hosts, in the order in which they are tried.
func (l *lookBack) lookFirst(in *lookBackIn) {
	if l.hostOffer == nil {
		l.hostOffer = make([]int32, len(l.model.hosts))
	}
	in.looked = true
	n := 0
	for id := range l.candidates() {
		if !l.parallelStatic(l.job, id, in.pe) {
			continue
		}
		host := l.model.instances[id].host
		k := int(l.hostOffer[host]) - 1
		if k < 0 {
			k = n
			n++
			l.hostOffer[host] = int32(n)
			in.offers, in.instances = grown(in.offers, n), grown(in.instances, n)
			in.since, in.plain = grown(in.since, n), grown(in.plain, n)
			in.offers[k] = offer{host: host, queues: in.offers[k].queues[:0]}
			in.instances[k], in.since[k] = in.instances[k][:0], diagram.Forever
		}
		in.instances[k] = append(in.instances[k], id)
	}
	in.offers = in.offers[:n]
	for k := range in.offers {
		l.hostOffer[in.offers[k].host] = 0
	}
}

// refreshOffers looks again at the hosts that do not have what they had at a later time.
func (l *lookBack) refreshOffers(in *lookBackIn, at span) {
	c := l.job.Category
	for k := range in.offers {
		if in.since[k] <= at.start {
			continue
		}
		o := &in.offers[k]
		in.all -= o.slots
		l.plan.since = 0
		if in.plain[k] && in.since[k] != diagram.Forever {
			in.all += l.countSlots(o, at)
			in.since[k] = l.plan.since
			continue
		}
		queues := o.queues[:0]
		*o = l.offerOf(c, o.host, at)
		o.queues = queues
		for _, id := range in.instances[k] {
			l.extend(o, c, id, at)
		}
		in.all += l.limitOffer(o)
		in.since[k] = l.plan.since
		if c.binds() {
			in.since[k] = at.start
		}
		if in.plain[k] = l.isPlain(o, in.instances[k]); in.plain[k] {
			l.keepSuitable(o, in.instances[k], at)
		}
	}
}

// isPlain reports whether nothing but the slots of its queue instances changes what a host has
// for the job.
func (l *lookBack) isPlain(o *offer, instances []InstanceID) bool {
	used := func(s setting) bool {
		return s.attribute != l.model.slots && l.model.attributes[s.attribute].consumable()
	}
	return l.plain && !slices.ContainsFunc(l.model.hosts[o.host].settings, func(s setting) bool { return l.model.attributes[s.attribute].consumable() }) &&
		!slices.ContainsFunc(instances, func(id InstanceID) bool { return slices.ContainsFunc(l.model.instances[id].layer.settings, used) })
}

// keepSuitable has a plain host's offer list all instances that the job could use if they had
// free slots.
func (l *lookBack) keepSuitable(o *offer, instances []InstanceID, at span) {
	c := l.job.Category
	suits := func(p Place) bool {
		for i := range c.hard {
			if !l.explicit(c, &c.hard[i], p, at) {
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
	l.countSlots(o, at)
}

// countSlots counts the free slots of a plain host.
func (l *lookBack) countSlots(o *offer, at span) int {
	o.slots = 0
	for i := range o.queues {
		q := &o.queues[i]
		q.slots = l.wholeSlots(AtInstance(q.id), l.model.slots, 1, at)
		o.slots += q.slots
	}
	return o.slots
}

// isSimple reports whether the numbers of slots alone decide: no instance is without a place
// for the master task, and no quota is to be looked at.
func (l *lookBack) isSimple() bool {
	c := l.job.Category
	if len(c.masterQueues) > 0 || !l.exempt && !l.model.limits.sets.IsEmpty() {
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
	per := rule.PerHost
	if rule.Name == qconf.PESlots {
		per = l.slots
	}
	n := 0
	for k := range in.offers {
		if in.offers[k].slots >= per {
			if n += per; n >= l.slots {
				return true
			}
		}
	}
	return false
}
