package launcher

import (
	"errors"
	"fmt"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// checkTask refuses a task of a parallel job. The launcher makes its description from that of the job, which it has
// checked, and the command of the task runs with the owner's rights, as the job does.
func (r *Rules) checkTask(b *taskBody) error {
	if err := checkID(b.ID); err != nil {
		return err
	}
	switch {
	case r.Submissions != nil:
		return errors.New("a task of a parallel job needs a trusted master: users confirm jobs, and no tasks")
	case b.ID.PETask == "":
		return fmt.Errorf("job %s is not a task of a parallel job", b.ID)
	case len(b.Record) > mostRecord:
		return fmt.Errorf("the record of task %s has %d bytes, at most %d are possible", b.ID, len(b.Record), mostRecord)
	case b.Record != nil && !jobdir.IsRecord(b.Record):
		return fmt.Errorf("the record of task %s is not one line", b.ID)
	}
	return nil
}

// prepareTask prepares a task of a parallel job of a trusted master.
func (s *Server) prepareTask(b *taskBody) (a any, dir descriptorUser, err error) {
	if err := s.Rules.checkTask(b); err != nil {
		return nil, nil, &refusal{err}
	}
	parent := b.ID
	parent.PETask = ""
	err = s.with(parent, func(of *launch.Job) error {
		h, err := s.enter(b.ID)
		if err != nil {
			return err
		}
		defer h.mu.Unlock()
		id := of.Description.ID // of a job that is not an array job, the front may call the task 1
		id.PETask = b.ID.PETask
		s.sweeping.RLock()
		h.job, err = launch.PrepareTask(of, id, b.Command, b.Dir, b.Env, b.Record)
		s.sweeping.RUnlock()
		if err == nil {
			if err = h.job.Dir.Share(s.FrontGID); err != nil {
				err = errors.Join(err, h.job.Remove(false), h.job.Close())
			}
		}
		if err != nil {
			s.drop(b.ID)
			return err
		}
		dir = h.job.Dir
		a, err = describe(h.job, launch.Prepared)
		return err
	})
	return a, dir, err
}

// dropTasks forgets the tasks of a removed job: they were removed with it.
func (s *Server) dropTasks(id job.ID) {
	if id.PETask != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, h := range s.jobs {
		if k.PETask == "" || k.Job != id.Job || k.Task != key(id).Task || !h.mu.TryLock() {
			continue // an order about a task that is carried out finds no directory
		}
		if h.job != nil {
			_ = h.job.Close()
			h.job = nil
		}
		h.mu.Unlock()
		delete(s.jobs, k)
	}
}
