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
// why (qsub(1), -w). The state is as before when it returns. A job that Enqueue refuses cannot
// run, without a reason.
func (s *State) Verify(j *Job, how Verification, now int64) (reasons []Reason, ok bool) {
	if s.checkJob(j) != nil {
		return nil, false
	}
	r := s.newRun(now)
	r.explaining = true
	if how == EmptyCluster {
		r.empty = true
		r.load = make([]float64, len(s.model.hosts))
		r.order = newOrder(s, s.byNumber(), s.byNumber(), r.load)
		r.order.base = s.byNumber() // nobody sorts here: seq_no has no meaning
	} else {
		r.planAhead()
		r.prepareOrder(r.conditions()...) // full ones are like others that do not fit (tested)
	}
	q := r.ask(j, 0)
	_, ok = r.assign(&q)
	if how == AsItIs {
		reasons = r.explainDropped(q)
	}
	return append(reasons, r.explain(q).quotasOnce()...), ok
}

// explainDropped returns which instances cannot be used now. A cluster queue that the job
// could not use in any case is told for all of its instances.
func (r *run) explainDropped(q query) []Reason {
	var dropped []Reason
	q.trace = newTrace(r.model)
	usable := map[QueueID]bool{}
	for id := range r.order.all() {
		usable[r.model.instances[id].queue] = true
	}
	told := map[QueueID]bool{}
	for _, reason := range r.decisions.Dropped {
		queue := r.model.instances[reason.place].queue
		if told[queue] {
			continue
		}
		// Where instances are left, the reason against the queue is found with them.
		if !usable[queue] && !r.queueStatic(&q, queue, q.category.minSlots()) {
			told[queue] = true
			continue
		}
		if reason.kind == droppedDisabled {
			reason.kind = droppedUnavailable // as the original calls all of them here
		}
		dropped = append(dropped, reason)
	}
	return append(dropped, q.trace.reasons...)
}

// byNumber returns all instances, in the order of their creation.
func (s *State) byNumber() []InstanceID {
	all := make([]InstanceID, len(s.instances))
	for i := range all {
		all[i] = InstanceID(i)
	}
	return all
}

// byModification returns all instances, those that were modified longest ago first.
func (s *State) byModification() []InstanceID {
	all := s.byNumber()
	slices.SortFunc(all, func(a, b InstanceID) int { return int(s.instances[a].order - s.instances[b].order) })
	return all
}
