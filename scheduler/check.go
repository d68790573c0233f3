package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// priorities are the bounds of the POSIX priority of a job (qsub(1), -p).
const (
	lowestPriority  = -1023
	highestPriority = 1024
)

// checkJob returns an error if a job cannot be scheduled.
func (s *State) checkJob(j *Job) error {
	if j == nil {
		return errors.New("cannot schedule a job that is nil")
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("cannot schedule job %d: %s", j.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case j.Category == nil:
		return fail("it has no category")
	case j.Category.model != s.model:
		return fail("its category is not of this configuration")
	case j.Tasks.IsEmpty():
		return fail("it has no tasks")
	case j.Tasks.First() < 1 || j.Tasks.Last() > math.MaxUint32:
		return fail("%s is not a list of tasks", j.Tasks)
	case !j.Array && (j.Tasks.First() != 1 || j.Tasks.Len() != 1):
		return fail("it is not an array job, and has the tasks %s", j.Tasks)
	case j.Priority < lowestPriority || j.Priority > highestPriority:
		return fail("its priority %d is not between %d and %d", j.Priority, lowestPriority, highestPriority)
	case j.TaskLimit < 0 || j.Active < 0:
		return fail("%d tasks are active, of at most %d", j.Active, j.TaskLimit)
	case !(j.Shares >= 0) || math.IsInf(j.Shares, 0):
		return fail("it has %v job shares", j.Shares)
	case math.IsNaN(j.Override) || math.IsInf(j.Override, 0):
		return fail("it has %v override tickets", j.Override)
	}
	for _, h := range j.Excluded {
		if h < 0 || int(h) >= len(s.model.hosts) {
			return fail("there is no host %d to be excluded", h)
		}
	}
	return nil
}

// checkRunning returns an error if a started task is invalid.
func (s *State) checkRunning(r *Running) error {
	if err := s.model.checkPlaces(r); err != nil {
		return err
	}
	if s.runs(r) {
		return fmt.Errorf("task %d.%d: it has been started already", r.Job.ID, r.Task)
	}
	return nil
}

// checkReservation returns an error if an advance reservation is invalid.
func (s *State) checkReservation(ar *Reservation) error {
	if ar == nil {
		return errors.New("cannot add an advance reservation that is nil")
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("cannot add advance reservation %d: %s", ar.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case ar.ID == 0:
		return fail("0 means that a job runs in none")
	case s.reservation(ar.ID) != nil:
		return fail("there is one with this number")
	case ar.Category == nil:
		return fail("it has no category")
	case ar.Category.model != s.model:
		return fail("its category is not of this configuration")
	case ar.Start >= ar.End:
		return fail("it ends at %d, before it starts at %d", ar.End, ar.Start)
	}
	if err := s.model.checkPE(ar.Category, ar.PE); err != nil {
		return fail("%v", err)
	}
	if err := s.model.checkGrants(ar.Grants); err != nil {
		return fail("%v", err)
	}
	return nil
}

// checkTask returns an error if a task with given places is invalid.
func (m *Model) checkTask(t *Running) error {
	if err := m.checkPlaces(t); err != nil {
		return err
	}
	switch {
	case len(t.Grants) == 0:
		return fmt.Errorf("task %d.%d: it has no queue instance", t.Job.ID, t.Task)
	case t.PE == None && (t.Slots() != 1 || t.Away.Slots > 0):
		return fmt.Errorf("task %d.%d: it is a serial task and has %d slots", t.Job.ID, t.Task, t.Slots()+t.Away.Slots)
	}
	return nil
}

// checkPlaces returns an error if the places of a task are invalid.
func (m *Model) checkPlaces(t *Running) error {
	if t == nil || t.Job == nil {
		return errors.New("cannot look at a task without a job")
	}
	fail := func(err error) error { return fmt.Errorf("task %d.%d: %w", t.Job.ID, t.Task, err) }
	switch c := t.Job.Category; {
	case c == nil:
		return fail(errors.New("its job has no category"))
	case c.model != m:
		return fail(errors.New("its category is not of this configuration"))
	case t.Away.Slots < 0 || t.Away.Master && t.Away.Slots == 0:
		return fail(fmt.Errorf("it has %d slots elsewhere", t.Away.Slots))
	}
	if err := m.checkPE(t.Job.Category, t.PE); err != nil {
		return fail(err)
	}
	if err := m.checkGrants(t.Grants); err != nil {
		return fail(err)
	}
	return nil
}

// checkPE returns an error if a parallel environment was granted that does not suit the job.
func (m *Model) checkPE(c *Category, pe PEID) error {
	switch {
	case pe != None && (pe < 0 || int(pe) >= len(m.pes)):
		return fmt.Errorf("there is no parallel environment %d", pe)
	case c.Parallel() != (pe != None):
		return fmt.Errorf("it is to run in PE %q, and requests %q", m.PEName(pe), c.requests.PE)
	}
	return nil
}

func (m *Model) checkGrants(grants []Grant) error {
	for i, g := range grants {
		switch {
		case g.Instance < 0 || int(g.Instance) >= len(m.instances):
			return fmt.Errorf("there is no queue instance %d", g.Instance)
		case g.Slots < 1:
			return fmt.Errorf("it has %d slots of %s", g.Slots, m.instances[g.Instance].name)
		case slices.ContainsFunc(grants[:i], func(o Grant) bool { return o.Instance == g.Instance }):
			return fmt.Errorf("it has %s twice", m.instances[g.Instance].name)
		}
	}
	return nil
}
