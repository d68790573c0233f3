package gridengine

import (
	"cmp"
	"slices"
	"time"

	"github.com/execd-project/execd/agent/gridengine/message"
)

// lookDue returns when the link next looks for the configuration of this host; zero without a
// registration.
func (s *session) lookDue() time.Time {
	if !s.registered {
		return time.Time{}
	}
	return s.lookAt
}

// lookPause returns the time between two looks.
func (s *session) lookPause() time.Duration { return cmp.Or(s.options.Look, s.interval) }

// look fetches the local configuration of this host if it has been created or removed. sge_qmaster
// does not announce these changes (qconf -aconf): it compares the reported versions, and a missing
// configuration counts as version 0, which is also the version of a new one.
func (s *session) look(now time.Time) {
	s.lookAt = now.Add(s.lookPause())
	s.ask(s.codec().LocalConfigurationRequest(s.options.Host, s.number()), func(r *message.Request) {
		list, err := s.codec().Configurations(r)
		if f := r.Failure(); f != nil || err != nil {
			s.log.Debug("cannot look for the configuration of this host", "answer", r.Answers, "error", err)
			return
		}
		global := func(c message.Configuration) bool { return c.Name == globalName }
		if versionsOf(slices.DeleteFunc(list, global)) != versionsOf(slices.DeleteFunc(slices.Clone(s.configurations), global)) {
			s.fetch(s.soonAll)
		}
	})
}

// globalName is the name of the configuration of all hosts.
const globalName = "global"

// mostWarnings is how many jobs are named that the agent does not know.
const mostWarnings = 50

// survey asks sge_qmaster, once on each connection and after the agent has reported its jobs, for
// the jobs that it lists on this host. It warns of jobs that the agent does not have: an sge_execd
// that ran here before has started them, and no daemon sees their ends.
func (s *session) survey() {
	if !s.registered || !s.reported || s.surveyed {
		return
	}
	s.surveyed = true
	s.ask(s.codec().JobsRequest(s.options.Host, s.number()), func(r *message.Request) {
		list, err := s.codec().Jobs(r)
		if f := r.Failure(); f != nil || err != nil {
			s.log.Debug("cannot ask which jobs this host has", "answer", r.Answers, "error", err)
			return
		}
		unknown := s.unknown(list)
		for i, u := range unknown {
			if i == mostWarnings {
				s.log.Warn("the agent does not know further jobs", "jobs", len(unknown)-i)
				break
			}
			s.log.Warn("sge_qmaster lists a job on this host that the agent does not know: another daemon has started it, and no daemon reports its end; see docs/gridengine.md",
				"job", u.job, "task", u.task, "owner", u.owner)
		}
	})
}

// unknownTask is a task that sge_qmaster lists and the agent does not know.
type unknownTask struct {
	job, task uint32
	owner     string
}

// unknown returns the tasks of a list that run on this host, but that the agent does not have.
func (s *session) unknown(list []message.Listed) (tasks []unknownTask) {
	same := func(host string) bool { return s.options.Cell.Names.Same(host, s.options.Host) }
	for _, j := range list {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if s.jobs[key{j.Job, t.Number, ""}] == nil && t.RunsOn(same) {
				tasks = append(tasks, unknownTask{j.Job, t.Number, j.Owner})
			}
		}
	}
	return tasks
}
