package scheduler

import "slices"

// Verification is what -w of qsub(1) compares a job with.
type Verification int

// The views of the cluster.
const (
	// EmptyCluster is the cluster without any jobs and load, whatever the state of its
	// queues: could the job ever run (-w e, -w w, -w v)?
	EmptyCluster Verification = iota
	// AsItIs is the cluster at the moment: could the job run now (-w p)?
	AsItIs
)

// Verify reports whether a job could run, and if not, or if some places are no good for it,
// why (qsub(1), -w). The state is as before when it returns.
func (s *State) Verify(j *Job, how Verification, now int64) (reasons []Reason, ok bool) {
	r := s.newRun(now)
	r.explaining = true
	if how == EmptyCluster {
		r.empty = true
		r.load = make([]float64, len(s.model.hosts))
		r.order = newOrder(s, r.byModification(), r.byModification(), r.load)
	} else {
		r.planAhead()
		r.prepareOrder()
	}
	one := &head{job: j, tasks: j.Tasks, left: 1}
	_, ok = r.assign(one)
	c := &categoryRun{}
	if how == AsItIs {
		for _, reason := range r.decisions.Dropped {
			if reason.kind == droppedDisabled {
				reason.kind = droppedUnavailable // as the original calls all of them here
			}
			c.reasons = append(c.reasons, reason)
		}
	}
	r.explainRejection(one, c)
	return c.reasons, ok
}

// byModification are all instances, those that were modified longest ago first.
func (s *State) byModification() []InstanceID {
	all := make([]InstanceID, len(s.instances))
	for i := range all {
		all[i] = InstanceID(i)
	}
	slices.SortFunc(all, func(a, b InstanceID) int { return int(s.instances[a].order - s.instances[b].order) })
	return all
}
