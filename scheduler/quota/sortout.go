package quota

import (
	"slices"

	"github.com/execd-project/execd/qconf"
)

// SortOut marks the queues and the hosts that Grid Engine does not check any more after a job has
// failed in a queue on a host. It reports whether that applies to all places. It determines which
// other reasons are given; no manual describes it (tested). A rule for some queues rules out these
// queues, and a rule for some hosts these hosts, unless an earlier rule of the set may apply to
// other places. A rule for single queue instances rules out nothing.
func (f *Failure) SortOut(queue, host int32, queues, hosts []bool) (everywhere bool) {
	if f.demand == nil {
		return false
	}
	a := f.demand.applicable
	r := a.candidates[f.candidate].rule
	before := a.sets.sets[r.set].rules[:r.index]
	allQueues, allHosts := isGlobal(r.source.Queues), isGlobal(r.source.Hosts)
	switch {
	case !allQueues && !allHosts, allQueues && allHosts && (r.eachQueue || r.eachHost):
	case allQueues && allHosts:
		return r.sortOutAll(a.consumer, before, queues, hosts)
	case allHosts:
		if slices.ContainsFunc(before, func(b *rule) bool { return b.mayBeFor(a.consumer) && !isGlobal(b.source.Hosts) }) {
			return false
		}
		for q := range queues {
			q := int32(q)
			if r.eachQueue && q == queue || !r.eachQueue && r.queues.has(q) && !slices.ContainsFunc(before, func(b *rule) bool { return b.mayBeFor(a.consumer) && b.queues.has(q) }) {
				queues[q] = true
			}
		}
	default:
		if slices.ContainsFunc(before, func(b *rule) bool { return b.mayBeFor(a.consumer) && !isGlobal(b.source.Queues) }) {
			return false
		}
		for h := range hosts {
			h := int32(h)
			if r.eachHost && h == host || !r.eachHost && r.hosts.has(h) && !slices.ContainsFunc(before, func(b *rule) bool { return b.mayBeFor(a.consumer) && b.hosts.has(h) }) {
				hosts[h] = true
			}
		}
	}
	return false
}

// SortOutMore reports whether any rule may mark places where a job fits, see Failure.SortsOutMore.
func (s *Sets) SortOutMore() bool { return s.sortOutMore }

// SortsOutMore reports whether SortOut may mark places where the job fits: if the rule limits each queue, or each host,
// of all, and names some of the other kind.
func (f *Failure) SortsOutMore() bool {
	return f.demand != nil && f.demand.applicable.candidates[f.candidate].rule.sortsOutMore()
}

func (r *rule) sortsOutMore() bool {
	allQueues, allHosts := isGlobal(r.source.Queues), isGlobal(r.source.Hosts)
	return allQueues != allHosts && (allQueues && r.eachQueue || allHosts && r.eachHost)
}

// sortOutAll does what SortOut does, for a rule for all places. Earlier rules count regardless of
// their jobs, unless this rule names parallel environments.
func (r *rule) sortOutAll(c Consumer, before []*rule, queues, hosts []bool) (everywhere bool) {
	byQueue := slices.ContainsFunc(before, func(b *rule) bool { return !isGlobal(b.source.Queues) })
	byHost := slices.ContainsFunc(before, func(b *rule) bool { return !isGlobal(b.source.Hosts) })
	if !r.mayBeFor(c) || !byQueue && !byHost {
		return true
	}
	for q := range queues {
		if byQueue && !slices.ContainsFunc(before, func(b *rule) bool { return b.queues.has(int32(q)) }) {
			queues[q] = true
		}
	}
	for h := range hosts {
		if byHost && !slices.ContainsFunc(before, func(b *rule) bool { return b.hosts.has(int32(h)) }) {
			hosts[h] = true
		}
	}
	return false
}

// SortOutHosts marks the hosts that Grid Engine does not check for a parallel job after it has
// failed for all places: the hosts to which no earlier rule applies.
func (f *Failure) SortOutHosts(hosts []bool) {
	a := f.demand.applicable
	r := a.candidates[f.candidate].rule
	before := a.sets.sets[r.set].rules[:r.index]
	for h := range hosts {
		h := int32(h)
		if r.hosts.has(h) && !slices.ContainsFunc(before, func(b *rule) bool { return b.mayBeFor(a.consumer) && b.hosts.has(h) }) {
			hosts[h] = true
		}
	}
}

// mayBeFor reports whether a rule is for a consumer in no parallel environment: so the original
// compares, also for parallel jobs.
func (r *rule) mayBeFor(c Consumer) bool {
	return r.users.admits(c.User, c.Group) && r.projects.admits(c.Project, "") && len(r.source.PEs.Scope) == 0
}

// isGlobal reports whether a filter lets all through, and says so.
func isGlobal(f qconf.QuotaFilter) bool {
	return !f.Set() || len(f.XScope) == 0 && slices.Contains(f.Scope, "*")
}
