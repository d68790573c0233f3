package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// StartTask starts a task of a parallel job. See Commands.
func (a *Agent) StartTask(ctx context.Context, s *TaskStart) (JobReport, error) {
	if len(s.Command) == 0 {
		return JobReport{}, &Error{InvalidArgument, fmt.Errorf("job %s: the task has no command", s.Job)}
	}
	if len(s.Key) > mostKey {
		return JobReport{}, &Error{InvalidArgument, fmt.Errorf("job %s: the key has %d bytes, at most %d are possible", s.Job, len(s.Key), mostKey)}
	}
	if s.Key == "" || strings.ContainsAny(s.Key, "\n\x00") {
		return JobReport{}, &Error{InvalidArgument, fmt.Errorf("job %s: invalid key %q of a task, expected one line", s.Job, s.Key)}
	}
	e, first, report, err := a.receiveTask(s)
	if err != nil || e == nil {
		return report, err
	}
	if first {
		a.acceptTask(e, s)
	}
	return a.accepted(ctx, e)
}

// taskKeys returns the prefix of the keys of a job's tasks, so that they differ from the keys of
// jobs and of other jobs' tasks.
func taskKeys(job job.ID) string { return job.String() + "/" }

// StartKey returns the key that Start or StartTask had.
func (r *JobReport) StartKey() string {
	if r.ID.PETask == "" {
		return r.Key
	}
	parent := r.ID
	parent.PETask = ""
	return strings.TrimPrefix(r.Key, taskKeys(parent))
}

// finishedKey returns the key under which the acknowledged end of a job or task is remembered.
// Tasks of another run of the job have other keys.
func (e *entry) finishedKey() string {
	if e.parent == nil {
		return e.record.Key
	}
	return finishedTask(e.parent, e.record.Key)
}

func finishedTask(parent *entry, key string) string { return parent.record.Key + "/" + key }

// receiveTask gives a task one of the slots of its job, or finds the task of an earlier, identical
// start, as receive does.
func (a *Agent) receiveTask(s *TaskStart) (e *entry, first bool, report JobReport, err error) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	key, parent := taskKeys(s.Job)+s.Key, a.table.jobs[s.Job]
	if parent != nil && s.Owner != parent.record.Owner {
		return nil, false, report, &Error{PermissionDenied, fmt.Errorf("job %s belongs to %s, not to %s", s.Job, parent.record.Owner, s.Owner)}
	}
	if e := a.table.keys[key]; e != nil && e.parent != nil && e.parent.id == s.Job {
		return e, false, report, nil
	}
	if parent != nil && a.finished.has(finishedTask(parent, key)) {
		// The task's number is no longer known, so the answer does not describe a task.
		return nil, false, JobReport{ID: s.Job, Key: s.Key, State: Acknowledged, Owner: s.Owner}, nil
	}
	// A slave job is ready for them as soon as it was accepted.
	if parent == nil || !parent.state.Live() || parent.state == Accepted && (!parent.record.Slave || parent.run == nil) {
		return nil, false, report, &Error{NotFound, fmt.Errorf("job %s does not run on this host", s.Job)}
	}
	r := &parent.record
	switch {
	case r.Simulated > 0:
		return nil, false, report, &Error{FailedPrecondition, fmt.Errorf("job %s is simulated (SIMULATE_JOBS): it has no tasks", s.Job)}
	case parent.endBy != "":
		return nil, false, report, &Error{FailedPrecondition, fmt.Errorf("job %s is being ended", s.Job)}
	case !r.Control:
		return nil, false, report, &Error{FailedPrecondition, fmt.Errorf("job %s: control_slaves of its parallel environment %s is not TRUE", s.Job, r.PE)}
	}
	if r.MasterForksSlaves && !r.Slave {
		return nil, false, report, &Error{FailedPrecondition, fmt.Errorf("job %s: it starts its tasks on this host by itself (master_forks_slaves of its parallel environment %s)", s.Job, r.PE)}
	}
	// As the original counts: the job script is one of the tasks, or it has a slot
	// more.
	most, used := r.Slots, 0
	switch {
	case r.DaemonForksSlaves && r.Slave:
		most = 1
	case r.DaemonForksSlaves:
		most = 2 // with the job script
	case !r.MasterIsTask:
		most++
	}
	if !r.Slave {
		used = 1
	}
	for _, t := range parent.tasks {
		if !t.state.Over() {
			used++
		}
	}
	if used >= most {
		why := fmt.Sprintf("all of its %d slots on this host are in use", r.Slots)
		if r.DaemonForksSlaves {
			why = "daemon_forks_slaves of its parallel environment " + r.PE + " allows one task at a time on this host"
		}
		return nil, false, report, &Error{ResourceExhausted, fmt.Errorf("job %s: %s", s.Job, why)}
	}
	parent.lastTask++
	id := s.Job
	id.PETask = strconv.Itoa(parent.lastTask) + "." + a.options.Host
	record := *r
	record.ID, record.Key, record.Slave, record.Received, record.Name = id, key, false, a.clock.Now(), "petask"
	e = newEntry(id, record)
	e.parent = parent
	a.table.insert(e)
	return e, true, report, nil
}

func (a *Agent) acceptTask(e *entry, s *TaskStart) {
	a.preparing <- struct{}{}
	defer func() { <-a.preparing }()
	defer a.disk.begin("making the directory of task " + e.id.String())()
	text, err := marshal(e.record)
	var run *launch.Job
	out := a.mayStart(true)
	if err == nil && out == nil {
		p := e.parent
		p.do.Lock()
		if err = a.keepTaskNumber(p); err == nil {
			run, err = launch.PrepareTask(p.run, e.id, s.Command, s.Dir, s.Env, text)
		}
		p.do.Unlock()
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	defer close(e.ready)
	if out != nil {
		e.failed = errOut(out.Error())
		a.table.drop(e)
		return
	}
	if err != nil {
		e.failed = roomError(err)
		if _, wrong := errors.AsType[*launch.TaskError](err); wrong {
			e.failed = &Error{InvalidArgument, err}
		}
		a.table.drop(e)
		return
	}
	e.run = run
	a.table.set(e, Accepted)
	if by := e.parent.endBy; by != "" {
		e.endBy = by // the order came too late
	}
	if len(e.parent.suspended) > 0 {
		e.orders = []Order{Suspend}
	}
	a.supervise(e)
}

// fileLastTask contains the number of the last task of a parallel job that was started here.
// Numbers must not be reused: a master would take the end of the second task for the end of the
// first one. The directories do not show used numbers, because they are removed after the
// acknowledgement.
const fileLastTask = "last_task"

// keepTaskNumber saves the number of the last task, from which the next agent continues. The caller
// has parent.do.
func (a *Agent) keepTaskNumber(parent *entry) error {
	a.table.mu.Lock()
	last := parent.lastTask
	a.table.mu.Unlock()
	return parent.run.Files().WriteFile(fileLastTask, []byte(strconv.Itoa(last)+"\n"))
}

// taskNumber returns the N of a task's ID "N.host", or 0 if it has none.
func taskNumber(name string) int {
	n, _, _ := strings.Cut(name, ".")
	number, err := strconv.Atoi(n)
	if err != nil {
		return 0
	}
	return number
}
