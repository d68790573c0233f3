package scheduler

import "github.com/execd-project/execd/qconf"

// shun keeps parallel jobs, for the rest of the run, off the hosts that jobs share when a
// parallel job with $round_robin got hosts of its own. No manual has it; the original does
// so (tested), and it does not matter to serial jobs.
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
