package scheduler_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// naivePlacing is an attempt to place so many slots of a parallel job.
type naivePlacing struct {
	*naiveRun
	job    *naiveJob
	pe     *sitePE
	want   int
	tried  []string // instances in order
	grants []naiveGrant
	visits int  // of hosts that gave slots
	master bool // there is a place for the master task
	// spoiled are the rules that were looked at, and whether nothing came of it as the
	// place did not have what the job requests of a queue's own parameters.
	spoiled map[naiveRuleKey]bool
}

type naiveRuleKey struct {
	rule     *siteQuotaRule
	consumer quotaConsumer
}

// placeParallel finds the environment that has the most slots for a job.
func (r *naiveRun) placeParallel(j *naiveJob) (pe string, grants []naiveGrant) {
	if g := r.site.global; !r.allows(j, &g.access) || r.forced(j, g.values) || !r.offers(j, "global") {
		return "", nil
	}
	most, fewest := 0, 0
	for _, p := range r.pes {
		if !matches(j.pe, p.name) || !r.allows(&naiveJob{user: j.user, group: j.group, project: "none"}, &p.access) {
			continue
		}
		r.lost = nil
		for _, n := range slices.Backward(j.slots) {
			if n < most {
				break
			}
			got := r.placeAmount(j, p, n)
			r.lose(j, p, n, got)
			if got != nil {
				soft := 0
				for _, g := range got {
					soft += r.violations(j, r.site.instance(g.instance))
				}
				if n > most || soft < fewest {
					pe, grants, most, fewest = p.name, got, n, soft
				}
				break
			}
		}
	}
	return pe, grants
}

// lose notes hosts that a job wants for itself while others use them, up to the last one that the search
// for places has looked at.
func (r *naiveRun) lose(j *naiveJob, p *sitePE, n int, got []naiveGrant) {
	if len(r.site.scheduler.adjustments) == 0 || r.refusedEarly(j, p, n) {
		return
	}
	r.lost = nil
	per, err := strconv.Atoi(p.rule)
	switch {
	case p.rule == "$pe_slots":
		per = n
	case err != nil:
		per = 1
	}
	left, turns := n, 1
	for _, g := range got {
		if p.rule == "$round_robin" {
			turns = max(turns, g.slots)
		}
	}
	seen := map[string]bool{}
	for _, i := range r.usable {
		h := r.site.host(r.site.instance(i).host)
		if seen[h.name] {
			continue
		}
		seen[h.name] = true
		rest := *j
		rest.hard = maps.Clone(j.hard)
		for name, text := range j.hard {
			if !r.site.attribute(name).isExclusive() || number(text) == 0 || h.values[name] == "" {
				continue
			}
			if exclusive, others := r.occupied(h.name, name); exclusive == 0 && others > 0 {
				delete(rest.hard, name)
			}
		}
		if slots, _ := r.slotsAt(&rest, h.name); len(rest.hard) < len(j.hard) && slots >= per &&
			r.allows(j, &h.access) && !r.forced(j, h.values) && !slices.Contains(j.excluded, h.name) {
			r.lost = append(r.lost, h.name)
		}
		for _, g := range got {
			if r.site.instance(g.instance).host == h.name {
				left -= g.slots
			}
		}
		if got != nil && left == 0 && turns == 1 {
			return
		}
	}
}

// refusedEarly reports whether a number of slots needs no look at hosts.
func (r *naiveRun) refusedEarly(j *naiveJob, p *sitePE, n int) bool {
	used := 0
	for _, t := range r.tasks {
		for _, g := range t.grants {
			if t.pe == p.name {
				used += g.slots
			}
		}
	}
	all, master := r.slotsAt(j, "global")
	per, err := strconv.Atoi(p.rule)
	return err == nil && n%per != 0 || n > p.slots-used || n > all || !master
}

func (r *naiveRun) placeAmount(j *naiveJob, p *sitePE, n int) []naiveGrant {
	if r.refusedEarly(j, p, n) {
		return nil
	}
	r.sortIfMoved()
	r.numbered = true
	x := naivePlacing{naiveRun: r, job: j, pe: p, want: n, spoiled: map[naiveRuleKey]bool{}, tried: slices.Clone(r.usable)}
	slices.SortStableFunc(x.tried, func(a, b string) int {
		return cmp.Compare(r.violations(j, r.site.instance(a)), r.violations(j, r.site.instance(b)))
	})
	x.spread()
	if x.got("") < n || !x.master {
		return nil
	}
	return x.grants
}

// hosts are the hosts that the job may use, in the order of their first instance in a cluster queue
// that is not ruled out as a whole.
func (x *naivePlacing) hosts() (list []string) {
	for _, name := range x.tried {
		if i := x.site.instance(name); x.isOpen(i.queue) && !slices.Contains(list, i.host) {
			list = append(list, i.host)
		}
	}
	return list
}

// isOpen reports whether a cluster queue has each thing that the job wants for any of its hosts.
func (x *naivePlacing) isOpen(queue string) bool {
	some := func(ok func(*siteInstance) bool) bool {
		return slices.ContainsFunc(x.site.instances(), func(i *siteInstance) bool { return i.queue == queue && ok(i) })
	}
	allowed := func(of func(a *siteAccess) siteAccess) bool {
		return some(func(i *siteInstance) bool { a := of(&i.access); return x.allows(x.job, &a) })
	}
	lists := slices.Concat(x.job.queues, x.job.masterQueues)
	named := func(ref string) bool { name, _, _ := strings.Cut(ref, "@"); return matches(name, queue) }
	if len(x.job.queues) > 0 && !slices.ContainsFunc(lists, named) || x.job.immediate && !some(func(i *siteInstance) bool { return i.interactive }) {
		return false
	}
	fewest := slices.IndexFunc(x.job.slots, func(n int) bool {
		per, err := strconv.Atoi(x.pe.rule)
		return err != nil || n%per == 0
	})
	for attribute, text := range x.job.hard {
		a := x.site.attribute(attribute)
		if !a.isText() && x.job.slots[fewest] > 1 || a.isExclusive() {
			continue
		}
		if !some(func(i *siteInstance) bool {
			if attribute == "h_rt" {
				return number(text) <= number(i.runtime)
			}
			value, configured := i.values[attribute]
			v := naiveValue{text: value}
			if configured && !a.isText() {
				v.number = number(value)
			}
			return !configured || x.satisfied(attribute, text, v)
		}) {
			return false
		}
	}
	return some(func(i *siteInstance) bool { return slices.Contains(i.pes, x.pe.name) }) &&
		allowed(func(a *siteAccess) siteAccess { return siteAccess{users: a.users} }) &&
		allowed(func(a *siteAccess) siteAccess { return siteAccess{xusers: a.xusers} }) &&
		allowed(func(a *siteAccess) siteAccess { return siteAccess{projects: a.projects} }) &&
		allowed(func(a *siteAccess) siteAccess { return siteAccess{xprojects: a.xprojects} })
}

func (x *naivePlacing) spread() {
	switch x.pe.rule {
	case "$fill_up":
		for _, h := range x.hosts() {
			x.visit(h, 1, x.want-x.got(""))
		}
	case "$round_robin":
		for progress := true; progress; {
			progress = false
			for _, h := range x.hosts() {
				progress = x.visit(h, 1, min(1, x.want-x.got(""))) || progress
			}
		}
	case "$pe_slots":
		for _, h := range x.hosts() {
			if x.got("") == 0 {
				x.visit(h, x.want, x.want)
			}
		}
	default:
		per, err := strconv.Atoi(x.pe.rule)
		if err != nil {
			panic(err)
		}
		for _, h := range x.hosts() {
			if x.got("") < x.want {
				x.visit(h, per, per)
			}
		}
	}
}

// got returns the number of slots that were granted on a host or in an instance, or in all if place
// is empty.
func (x *naivePlacing) got(place string) int {
	n := 0
	for _, g := range x.grants {
		if place == "" || x.isAt(g, place) {
			n += g.slots
		}
	}
	return n
}

// visit takes slots of a host, one after the other, from its instances in their order. It
// takes none if there are not enough.
func (x *naivePlacing) visit(host string, least, most int) bool {
	before := *x
	before.grants = slices.Clone(x.grants)
	hostSlots, hostMaster := x.slotsAt(x.job, host)
	room, taken := x.headroom(host), 0
	if hostSlots > 0 {
		x.lookAtRules(host)
	}
	for _, name := range x.tried {
		i := x.site.instance(name)
		if i.host != host || !x.static(x.job, i, x.pe.name) || x.unknown(x.job, i, false) {
			continue
		}
		slots, master := x.slotsAt(x.job, name)
		master = master && hostMaster && !x.unknown(x.job, i, true) && (len(x.job.masterQueues) == 0 || x.listed(x.job.masterQueues, i))
		limit := most
		if len(x.job.masterQueues) > 0 && len(x.job.queues) > 0 && !x.listed(x.job.queues, i) {
			if !master {
				continue
			}
			if !x.master {
				limit = min(most, taken+1)
			}
		}
		for taken < limit && x.got(name) < slots && x.got(host) < min(hostSlots, room) && !x.isSpoiled(i) && x.quotaSlots(x.job, x.pe.name, i, x.grants) > 0 {
			if !x.master && !master && x.got("") == x.want-1 {
				break // the last slot is kept for the master task
			}
			x.grant(i, master)
			taken++
		}
	}
	if taken < least || taken == 0 {
		*x = before
		return false
	}
	x.visits++
	return true
}

// rules are the quota rules for an instance, those of the sets that are looked at first in
// front.
func (x *naivePlacing) rules(i *siteInstance) (keys []naiveRuleKey) {
	for _, set := range x.site.quotas {
		if !set.enabled {
			continue
		}
		if rule := x.ruleFor(set, x.job, x.pe.name, i); rule != nil && len(rule.limits) > 0 {
			keys = append(keys, naiveRuleKey{rule, rule.counter(x.job, x.pe.name, i)})
		}
	}
	return keys
}

// lookAtRules looks at the quota rules for all instances of a host, once for each rule and
// consumer.
func (x *naivePlacing) lookAtRules(host string) {
	for _, name := range x.tried {
		i := x.site.instance(name)
		if i.host != host || !x.static(x.job, i, x.pe.name) || !x.inAnyVariant(i) {
			continue
		}
		for _, key := range x.rules(i) {
			if _, known := x.spoiled[key]; !known {
				x.spoiled[key] = !x.longEnough(i)
			}
			if x.spoiled[key] {
				break
			}
		}
	}
}

func (x *naivePlacing) isSpoiled(i *siteInstance) bool {
	return slices.ContainsFunc(x.rules(i), func(key naiveRuleKey) bool { return x.spoiled[key] })
}

// longEnough compares the only request of the tests that is for a parameter of queues.
func (x *naivePlacing) longEnough(i *siteInstance) bool {
	text, asked := x.job.hard["h_rt"]
	return !asked || number(text) <= number(i.runtime)
}

// inAnyVariant reports whether any instance of a cluster queue is long enough.
func (x *naivePlacing) inAnyVariant(i *siteInstance) bool {
	return slices.ContainsFunc(x.site.instances(), func(o *siteInstance) bool { return o.queue == i.queue && x.longEnough(o) })
}

// grant takes a slot of an instance.
func (x *naivePlacing) grant(i *siteInstance, master bool) {
	for k := range x.grants {
		if x.grants[k].instance == i.name() {
			x.grants[k].slots++
			return
		}
	}
	g := naiveGrant{i.name(), 1}
	if master && (!x.master || x.visits == 0) { // the last one of the first visit is the master
		x.grants = slices.Insert(x.grants, 0, g)
	} else {
		x.grants = append(x.grants, g)
	}
	x.master = x.master || master
}

// slotsAt returns the number of slots that a place has for a job, and whether it has the amounts
// that the master task needs once.
func (r *naiveRun) slotsAt(j *naiveJob, place string) (slots int, master bool) {
	slots, master = math.MaxInt32, true
	for _, a := range r.site.attributes {
		_, configured := r.configured(place, a.name)
		if !configured || !a.isConsumable() || a.isExclusive() {
			continue
		}
		amount, _ := r.request(j, a.name)
		v, _ := r.at(place, a.name)
		switch {
		case a.consumable == "JOB":
			master = master && amount <= v.number
		case amount > 0:
			slots = min(slots, max(0, int(v.number/amount)))
		}
	}
	// All else is as for a serial job that takes none of these.
	rest := *j
	rest.hard = map[string]string{}
	for name, text := range j.hard {
		if a := r.site.attribute(name); a.isExclusive() || !r.isConfigured(place, name) || !a.isConsumable() {
			rest.hard[name] = text
		}
	}
	if !r.offersBeside(&rest, place) {
		return 0, false
	}
	return slots, master
}

func (r *naiveRun) isConfigured(place, attribute string) bool {
	_, ok := r.configured(place, attribute)
	return ok
}

// offersBeside does what offers does, without the consumables that are counted.
func (r *naiveRun) offersBeside(j *naiveJob, place string) bool {
	for _, a := range r.site.attributes {
		text, asked := j.hard[a.name]
		configured := r.isConfigured(place, a.name)
		if configured && a.isExclusive() {
			exclusive, others := r.occupied(place, a.name)
			if exclusive > 0 || asked && number(text) > 0 && others > 0 {
				return false
			}
		}
		if v, ok := r.at(place, a.name); asked && ok && (!configured || !a.isConsumable() || a.isExclusive()) && !r.satisfied(a.name, text, v) {
			return false
		}
	}
	return true
}

// headroom returns the number of slots that job_load_adjustments allow on a host before its
// instances are in load alarm.
func (x *naivePlacing) headroom(host string) int {
	room := 0
	if len(x.site.scheduler.adjustments) == 0 {
		return math.MaxInt32
	}
	for _, name := range x.usable {
		i := x.site.instance(name)
		if i.host != host { // of all queues, whether the job may use them or not
			continue
		}
		least := math.MaxInt32
		for _, threshold := range i.load {
			for _, adjustment := range x.site.scheduler.adjustments {
				l, ok := x.reportedValue(host, threshold[0])
				if adjustment[0] != threshold[0] || !ok {
					continue
				}
				adj := number(adjustment[1])
				if n, ok := x.load[host]["num_proc"]; ok && threshold[0][:3] == "np_" {
					adj /= max(number(n), 1)
				}
				gap := number(threshold[1]) - l.number
				if x.site.attribute(threshold[0]).relop == "<=" {
					gap = -gap
				}
				least = min(least, int(gap/adj)+1)
			}
		}
		room = max(room, least)
	}
	return room
}
