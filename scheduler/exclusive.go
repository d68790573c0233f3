package scheduler

import (
	"slices"

	"github.com/execd-project/execd/qconf"
)

// shun bars parallel jobs, until the end of the run, from the hosts that jobs share, after a parallel
// job with $round_robin got exclusive hosts. Grid Engine does so, although no manual describes it
// (tested). It does not affect serial jobs.
func (r *run) shun(s *Start) {
	if s.PE == None || r.model.pes[s.PE].object.AllocationRule.Name != qconf.RoundRobin {
		return
	}
	for i := range s.Job.Category.hard {
		q := &s.Job.Category.hard[i]
		if !r.model.attributes[q.attribute].exclusive() || q.amount == 0 {
			continue
		}
		for h := range r.model.hosts {
			if r.used.at(AtHost(HostID(h)), q.attribute).others > 0 {
				if r.shunned == nil {
					r.shunned = make([]bool, len(r.model.hosts))
				}
				r.shunned[h] = true
			}
		}
	}
}

func (r *run) shuns(id InstanceID) bool {
	return r.shunned != nil && r.shunned[r.model.instances[id].host]
}

// exclusive reports whether jobs of a category request a resource exclusively.
func (c *Category) exclusive() bool {
	return slices.ContainsFunc(c.hard, func(q request) bool {
		return q.amount != 0 && c.model.attributes[q.attribute].exclusive()
	})
}

// loseShared notes hosts whose instances Grid Engine drops without a reason when the next task of this
// run starts, as if they were overloaded: hosts that a parallel job has requested exclusively while
// other jobs use them. Grid Engine marks all instances of such a host when it looks at the host,
// and forgets the marks when it tries the next parallel job. It does not look at marks without
// job_load_adjustments (tested). placed is what the job has found; nothing if it was refused.
func (r *run) loseShared(q *query, pe PEID, slots int, placed []Grant) {
	rule := r.model.pes[pe].object.AllocationRule
	per, found := slotsPerHost(rule, slots), 0
	for _, host := range r.hostsInOrder() {
		for _, g := range placed {
			if r.model.instances[g.Instance].host != host {
				continue
			}
			if found += g.Slots; rule.Name == qconf.RoundRobin && g.Slots > 1 {
				found = -slots // it looks at all hosts before it takes a second slot of one
			}
		}
		if n, _ := r.slotsAt(q, AtHost(host)); n == 0 && r.hostAllows(q, host) && r.later(q, host) >= per {
			r.lost = append(r.lost, host)
		}
		if len(placed) > 0 && found >= slots {
			return
		}
	}
}

// hostsInOrder returns the hosts of usable instances, in the order of their first instances.
func (r *run) hostsInOrder() (hosts []HostID) {
	seen := make([]bool, len(r.model.hosts))
	for id := range r.order.all() {
		if h := r.model.instances[id].host; !seen[h] {
			seen[h] = true
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// dropLost drops the instances of the hosts that loseShared has noted.
func (r *run) dropLost() {
	for _, host := range r.lost {
		for _, id := range r.model.hosts[host].instances {
			if r.order.usable(id) {
				r.order.drop(id)
				r.overloaded = append(r.overloaded, id)
			}
		}
	}
	r.lost = r.lost[:0]
}
