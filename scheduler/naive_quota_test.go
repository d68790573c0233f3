package scheduler_test

import (
	"math"
	"path"
	"slices"
	"strings"
)

// quotaConsumer holds the names that the filters of a quota rule compare.
type quotaConsumer struct{ user, project, pe, queue, host string }

// ruleFor returns the rule of a set that holds for a consumer: the first one that matches.
func (r *naiveRun) ruleFor(set *siteQuotaSet, j *naiveJob, pe string, i *siteInstance) *siteQuotaRule {
	for _, rule := range set.rules {
		if r.filterUser(rule.users, j) && filterName(rule.projects, j.project) && filterName(rule.pes, pe) &&
			filterName(rule.queues, i.queue) && r.filterHost(rule.hosts, i.host) {
			return rule
		}
	}
	return nil
}

// filter reports whether the value is in no item with a "!" and, if there are others, in one of
// these.
func filter(f *siteFilter, in func(item string) bool) bool {
	if f == nil {
		return true
	}
	positive, found := false, false
	for _, item := range f.items {
		if not, ok := strings.CutPrefix(item, "!"); ok {
			if in(not) {
				return false
			}
			continue
		}
		positive = true
		found = found || in(item)
	}
	return !positive || found
}

func glob(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return err == nil && ok
}

func (r *naiveRun) filterUser(f *siteFilter, j *naiveJob) bool {
	return filter(f, func(item string) bool {
		if set, ok := strings.CutPrefix(item, "@"); ok {
			return r.memberOf(j, set)
		}
		return glob(item, j.user)
	})
}

// filterName does what filter does, for a name that may be missing. A missing name matches no item.
func filterName(f *siteFilter, name string) bool {
	return filter(f, func(item string) bool { return name != "" && (glob(item, name) || glob(name, item)) })
}

func (r *naiveRun) filterHost(f *siteFilter, host string) bool {
	return filter(f, func(item string) bool {
		if strings.HasPrefix(item, "@") {
			return slices.Contains(r.site.groups[item], host)
		}
		return glob(item, host)
	})
}

// counter says with whom a job shares a rule: the fields whose filters are expanded.
func (rule *siteQuotaRule) counter(j *naiveJob, pe string, i *siteInstance) quotaConsumer {
	var c quotaConsumer
	for _, f := range []struct {
		filter *siteFilter
		field  *string
		value  string
	}{
		{rule.users, &c.user, j.user},
		{rule.projects, &c.project, j.project},
		{rule.pes, &c.pe, pe},
		{rule.queues, &c.queue, i.queue},
		{rule.hosts, &c.host, i.host},
	} {
		if f.filter != nil && f.filter.expanded {
			*f.field = f.value
		}
	}
	return c
}

// quotaUsed adds up what tasks use under a rule with a counter: amounts, and for
// exclusive attributes the slots of both kinds of jobs.
func (r *naiveRun) quotaUsed(set *siteQuotaSet, rule *siteQuotaRule, c quotaConsumer, attribute string, tasks []*naiveTask) (amount float64, exclusive, others int) {
	for _, t := range tasks {
		for k, g := range t.grants {
			i := r.site.instance(g.instance)
			if r.ruleFor(set, t.job, t.pe, i) != rule || rule.counter(t.job, t.pe, i) != c {
				continue
			}
			each, asked := r.request(t.job, attribute)
			if asked && each > 0 {
				exclusive += g.slots
			} else {
				others += g.slots
			}
			if r.site.attribute(attribute).consumable == "JOB" {
				if k == 0 {
					amount += each
				}
				continue
			}
			amount += each * float64(g.slots)
		}
	}
	return amount, exclusive, others
}

// quotaLimit returns a limit as a number. $attribute*factor is the value of the host.
func (r *naiveRun) quotaLimit(text, host string) float64 {
	dynamic, ok := strings.CutPrefix(text, "$")
	if !ok {
		return number(text)
	}
	attribute, factor, weighted := strings.Cut(dynamic, "*")
	v, ok := r.strictest(attribute, "global", host)
	switch {
	case !ok:
		return 9999
	case weighted:
		return v.number * number(factor)
	}
	return v.number
}

// withinQuotas checks all quotas for a slot of a serial job.
func (r *naiveRun) withinQuotas(j *naiveJob, i *siteInstance) bool {
	_, rule := r.refusing(j, i)
	return rule == nil
}

// ruleOut notes the places that a quota rules out for a serial job that it refuses an instance: if the rule limits each
// queue on some hosts, these hosts, and if it limits each host for some queues, these queues, unless an earlier rule of
// the set for the job names some of the other kind.
func (r *naiveRun) ruleOut(j *naiveJob, i *siteInstance, out map[string]bool) {
	set, rule := r.refusing(j, i)
	if rule == nil {
		return
	}
	all := func(f *siteFilter) bool {
		return f == nil || slices.Contains(f.items, "*") && !slices.ContainsFunc(f.items, func(s string) bool { return strings.HasPrefix(s, "!") })
	}
	each := func(f *siteFilter) bool { return f != nil && f.expanded }
	before := set.rules[:slices.Index(set.rules, rule)]
	earlier := func(b *siteQuotaRule) bool {
		return r.filterUser(b.users, j) && filterName(b.projects, j.project) && filterName(b.pes, "")
	}
	named := func(filter func(b *siteQuotaRule) *siteFilter) bool {
		return slices.ContainsFunc(before, func(b *siteQuotaRule) bool { return earlier(b) && !all(filter(b)) })
	}
	hosts := func(b *siteQuotaRule) *siteFilter { return b.hosts }
	queues := func(b *siteQuotaRule) *siteFilter { return b.queues }
	switch {
	case all(rule.queues) && each(rule.queues) && !all(rule.hosts) && !named(queues):
		for _, other := range r.site.instances() {
			if each(rule.hosts) && other.host == i.host || !each(rule.hosts) && r.filterHost(rule.hosts, other.host) &&
				!slices.ContainsFunc(before, func(b *siteQuotaRule) bool { return earlier(b) && r.filterHost(b.hosts, other.host) }) {
				out["@"+other.host] = true
			}
		}
	case all(rule.hosts) && each(rule.hosts) && !all(rule.queues) && !named(hosts):
		for _, other := range r.site.instances() {
			if each(rule.queues) && other.queue == i.queue || !each(rule.queues) && filterName(rule.queues, other.queue) &&
				!slices.ContainsFunc(before, func(b *siteQuotaRule) bool { return earlier(b) && filterName(b.queues, other.queue) }) {
				out[other.queue] = true
			}
		}
	}
}

// refusing returns the set and the rule that refuse an instance to a serial job, nil for none.
func (r *naiveRun) refusing(j *naiveJob, i *siteInstance) (*siteQuotaSet, *siteQuotaRule) {
	for _, set := range r.site.quotas {
		if !set.enabled {
			continue
		}
		rule := r.ruleFor(set, j, "", i)
		if rule == nil {
			continue
		}
		for _, limit := range rule.limits {
			if !r.withinLimit(set, rule, limit, j, i) {
				return set, rule
			}
		}
	}
	return nil, nil
}

func (r *naiveRun) withinLimit(set *siteQuotaSet, rule *siteQuotaRule, limit [2]string, j *naiveJob, i *siteInstance) bool {
	a := r.site.attribute(limit[0])
	text, asked := j.hard[a.name]
	if !a.isConsumable() {
		switch {
		case !asked:
			return !a.isForced()
		case a.isText():
			return matches(text, limit[1])
		}
		return r.satisfied(a.name, text, naiveValue{number: r.quotaLimit(limit[1], i.host)})
	}
	used, exclusive, others := r.quotaUsed(set, rule, rule.counter(j, "", i), a.name, r.tasks)
	if a.isExclusive() {
		return exclusive == 0 && (!asked || number(text) == 0 || others == 0)
	}
	each, _ := r.request(j, a.name)
	return each == 0 || each <= r.quotaLimit(limit[1], i.host)-used
}

// quotaSlots returns the number of slots of a parallel job that the quotas allow in an instance, in
// addition to those that it has got.
func (r *naiveRun) quotaSlots(j *naiveJob, pe string, i *siteInstance, got []naiveGrant) int {
	slots := math.MaxInt32
	tasks := append(slices.Clone(r.tasks), &naiveTask{job: j, pe: pe, grants: got})
	for _, set := range r.site.quotas {
		if !set.enabled {
			continue
		}
		rule := r.ruleFor(set, j, pe, i)
		if rule == nil {
			continue
		}
		c := rule.counter(j, pe, i)
		for _, limit := range rule.limits {
			a := r.site.attribute(limit[0])
			_, asked := j.hard[a.name]
			if !a.isConsumable() {
				if asked {
					return 0
				}
				continue
			}
			if a.isExclusive() {
				_, exclusive, others := r.quotaUsed(set, rule, c, a.name, r.tasks)
				if exclusive > 0 || asked && number(j.hard[a.name]) > 0 && others > 0 {
					return 0
				}
				continue
			}
			used, _, _ := r.quotaUsed(set, rule, c, a.name, tasks)
			if each, _ := r.request(j, a.name); each > 0 && a.consumable != "JOB" {
				slots = min(slots, max(0, int((r.quotaLimit(limit[1], i.host)-used)/each)))
			}
		}
	}
	return slots
}
