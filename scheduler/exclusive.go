package scheduler

import "github.com/execd-project/execd/qconf"

// shun bars parallel jobs for the rest of the run from the hosts that jobs share, after a parallel
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
