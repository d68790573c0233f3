package scheduler

import "slices"

// Verification is the kind of cluster with which -w of qsub(1) compares a job.
type Verification int

// The views of the cluster.
const (
	// EmptyCluster is the cluster without jobs and load, ignoring the states of its queues: it
	// answers whether the job could ever run (-w e, -w w, -w v).
	EmptyCluster Verification = iota
	// AsItIs is the cluster at the moment: could the job run now (-w p)?
	AsItIs
)

// Verify reports whether a job could run, and the reasons against the places where it cannot
// (qsub(1), -w). It does not change the state. A job that Enqueue refuses cannot run, and has no
// reasons.
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
		r.order.base = s.byNumber() // there is no sorting here: seq_no has no effect
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

// explainDropped returns the reasons why instances cannot be used now. A cluster queue that the job
// can never use has one reason for all of its instances.
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

// byModification returns all instances, the least recently modified first.
func (s *State) byModification() []InstanceID {
	all := s.byNumber()
	slices.SortFunc(all, func(a, b InstanceID) int { return int(s.instances[a].order - s.instances[b].order) })
	return all
}
