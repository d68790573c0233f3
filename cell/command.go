package cell

import (
	"slices"

	"github.com/execd-project/execd/submit"
)

// JobOperation is an operation of qmod(1) on jobs.
type JobOperation uint8

// The operations.
const (
	SuspendJob    JobOperation = iota // -sj
	UnsuspendJob                      // -usj
	ClearJobError                     // -cj
	RescheduleJob                     // -rj
)

// ModifyJobs executes qmod(1) -sj, -usj, -cj and -rj. With force it also reschedules jobs that are
// not rerunnable. The manual reserves -rj for managers; the original also allows it for the owner
// (tested).
func (c *Cell) ModifyJobs(now int64, by Caller, op JobOperation, jobs []submit.JobRange, force bool) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, t := range c.targets(by, forQmod, jobs, nil, a) {
		j := t.job
		if !c.mayChange(by, j) {
			a.deny(Event{Kind: MayNotModify, User: by.User, Job: j.ID()})
			continue
		}
		waiting, tasks := j.selected(t.ranges)
		tasks = slices.DeleteFunc(tasks, func(x *Task) bool {
			return x.run == nil && (op != ClearJobError || x.Error == "" && x.Restarts == 0)
		})
		if len(tasks) == 0 {
			e := Event{Kind: TaskPending, Job: j.ID()}
			if t.ranges != nil || !j.IsArray() {
				e.Task = uint32(max(waiting.First(), 1))
			}
			a.deny(e)
			continue
		}
		for _, x := range tasks {
			c.modifyTask(by, op, x, force, a)
		}
	}
	return c.done(a)
}

func (c *Cell) modifyTask(by Caller, op JobOperation, t *Task, force bool, a *Answer) {
	event := func(kind EventKind) Event {
		return t.about(Event{Kind: kind, User: by.User, Host: by.Host, Force: force})
	}
	switch op {
	case SuspendJob:
		if t.byUser && !force {
			a.deny(event(AlreadySuspended))
			return
		}
		t.byUser = true
		c.touchTask(t)
		c.resuspendOn(t)
		a.say(event(JobSuspended))
	case UnsuspendJob:
		switch {
		case !t.byUser && force:
			a.say(event(EnablingForced))
			return
		case !t.byUser:
			a.deny(event(AlreadyUnsuspended))
			return
		}
		a.say(event(JobUnsuspended))
		t.byUser = false
		c.touchTask(t)
		c.resuspendOn(t)
	case ClearJobError:
		if t.Error == "" {
			a.deny(event(NotInErrorState))
			return
		}
		t.Error = ""
		// The next start is a new one, which hosts recognize by its number. For the job it counts
		// as the first, as in the original.
		t.Restarts++
		t.Refusals++
		c.touchTask(t)
		c.refresh(t.Job)
		a.say(event(ErrorStateCleared))
	case RescheduleJob:
		c.rescheduleByHand(t, force, a)
	}
}

// resuspendOn suspends or resumes a task, and updates slot-wise subordination.
func (c *Cell) resuspendOn(t *Task) {
	c.resuspend(t)
	for _, h := range c.hostsOf(t.run.Grants) {
		c.balanceSlots(h, true, true)
	}
}

func (c *Cell) rescheduleByHand(t *Task, force bool, a *Answer) {
	if !force && !c.rerunnable(t) {
		a.deny(t.about(Event{Kind: NotRerunnable}))
		return
	}
	a.say(t.about(Event{Kind: Rescheduled, Host: c.model.HostName(c.model.HostOf(master(t))), Force: force}))
	c.reschedule(t, true)
}
