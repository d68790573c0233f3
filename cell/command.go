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
			a.deny("%s - you have no permission to modify job \"%d\"", by.User, j.ID())
			continue
		}
		waiting, tasks := j.selected(t.ranges)
		tasks = slices.DeleteFunc(tasks, func(x *Task) bool {
			return x.run == nil && (op != ClearJobError || x.Error == "" && x.Restarts == 0)
		})
		if len(tasks) == 0 {
			label := jobLabel(j)
			if t.ranges != nil || !j.IsArray() {
				label = taskLabel(j, uint32(max(waiting.First(), 1)))
			}
			a.deny("Modify operation can not be applied on %s in pending/hold state", label)
			continue
		}
		for _, x := range tasks {
			c.modifyTask(by, op, x, force, a)
		}
	}
	return c.done(a)
}

func (c *Cell) modifyTask(by Caller, op JobOperation, t *Task, force bool, a *Answer) {
	label := t.label()
	switch op {
	case SuspendJob:
		if t.byUser && !force {
			a.deny("%s - %s is already suspended", by.User, label)
			return
		}
		t.byUser = true
		c.touchTask(t)
		c.resuspendOn(t)
		if force {
			a.say("%s - forced suspension of %s", by.User, label)
		} else {
			a.say("%s - suspended %s", by.User, label)
		}
	case UnsuspendJob:
		switch {
		case !t.byUser && force:
			a.say("%s - forced enabling of %s", by.User, label)
			return
		case !t.byUser:
			a.deny("%s - %s is already unsuspended", by.User, label)
			return
		case force:
			a.say("%s@%s forced unsuspension of %s", by.User, by.Host, label)
		default:
			a.say("%s - unsuspended %s", by.User, label)
		}
		t.byUser = false
		c.touchTask(t)
		c.resuspendOn(t)
	case ClearJobError:
		if t.Error == "" {
			a.deny("J%s is not in error state", label[1:])
			return
		}
		t.Error = ""
		// The next start is a new one, which hosts recognize by its number. For the job it counts
		// as the first, as in the original.
		t.Restarts++
		t.Refusals++
		c.touchTask(t)
		c.refresh(t.Job)
		a.say("%s@%s cleared error state of %s", by.User, by.Host, label)
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
	label, host := t.label(), c.model.HostName(c.model.HostOf(master(t)))
	switch {
	case force:
		a.say("Forced rescheduling of %s on host %s", label, host)
	case c.rerunnable(t):
		a.say("Pushed rescheduling of %s on host %s", label, host)
	default:
		// The original always names the queue "none" (tested).
		a.deny("The %s is running in queue none where jobs are not rerunable.", label)
		return
	}
	c.reschedule(t, true)
}
