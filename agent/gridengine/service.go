package gridengine

import (
	"errors"
	"maps"
	"slices"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// service tracks the error states by which sge_qmaster learns that this host takes no jobs. Its
// protocol has no message for a host that takes no jobs. But a job that is refused can put its
// queue instance into error state, which qstat -explain E shows and in which the instance gets no
// more jobs. When the host takes jobs again, the link clears this error state.
type service struct {
	draining string          // why the host takes no jobs; empty if it does
	failed   map[string]bool // queue instances in error state, which sge_qmaster has acknowledged
}

// refusal reports whether a job was refused because the host takes none.
func refusal(err error) bool {
	e, ok := errors.AsType[*agent.Error](err)
	return ok && e.Code == agent.Unavailable
}

// takeService notes whether the host takes jobs.
func (s *session) takeService(r *agent.ServiceReport) {
	s.service.draining = r.Draining
	s.clearErrors()
}

// failedInstance notes that sge_qmaster has put a queue instance into error state, since a job
// was refused.
func (s *session) failedInstance(instance string) {
	if s.service.failed == nil {
		s.service.failed = map[string]bool{}
	}
	s.service.failed[instance] = true
	s.clearErrors()
}

// forgetInstances leaves queue instances in error state that a job has put there, too.
func (s *session) forgetInstances(r *agent.JobReport) {
	own := func(instance string) bool {
		queue, _ := split(instance)
		return r.Outcome.Class == job.ClassHost || queue == r.Queue
	}
	switch r.Outcome.Class {
	case job.ClassQueue, job.ClassQueueFinished, job.ClassHost:
		maps.DeleteFunc(s.service.failed, func(instance string, _ bool) bool { return own(instance) })
		for _, j := range s.jobs {
			if own(j.refused) {
				j.refused = ""
			}
		}
	}
}

// clearErrors takes queue instances out of error state when the host takes jobs again.
func (s *session) clearErrors() {
	if s.service.draining != "" || len(s.service.failed) == 0 || !s.registered {
		return
	}
	var list []string
	for instance := range s.service.failed {
		list = append(list, instance)
	}
	slices.Sort(list)
	s.ask(s.codec().ClearErrorRequest(list, s.number()), func(r *message.Request) {
		for _, instance := range list {
			delete(s.service.failed, instance)
		}
		if f := r.Failure(); f != nil && !f.Remark() {
			s.log.Error("queue instances stay in error state though the host takes jobs again: clear it with qmod -cq", "instances", list, "reason", f.Message())
			return
		}
		s.log.Info("clearing the error state of queue instances: the host takes jobs again", "instances", list)
	})
}
