package cell

import (
	"slices"

	"github.com/execd-project/execd/submit"
)

// Verified is what has become of the copy of a job when somebody has verified it: a number of
// TakeNumber, and another request, or why there is to be none.
type Verified struct {
	Number  uint32
	Request *submit.Request
	Err     error
}

// Copied returns the request of a copy of a job, without holds.
func (j *Job) Copied() *submit.Request {
	r := *j.Request()
	r.Hold = false
	return &r
}

// Resubmit is qresub(1): it submits copies of jobs, by their numbers, for whom it is
// called by; the answer has the number of the last one. The copy is without the holds of
// the job, and has those of -h. As in the original the last job named is copied first, and
// the numbers of copies that are refused are used up. verified has what was verified, by the
// numbers of the jobs; nil has them copied as they are.
func (c *Cell) Resubmit(now int64, by Caller, jobs []submit.JobRange, holds submit.HoldChange, verified map[uint32]Verified) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, r := range slices.Backward(jobs) {
		if r.Tasks != nil {
			a.deny("denied: the selected option works only on jobs and not on tasks")
			continue
		}
		id, _ := jobNumber(r.Job) // 0 for a name
		j := c.jobs[id]
		v, isVerified := verified[id]
		switch {
		case j == nil || verified != nil && !isVerified: // it has come only now
			a.deny("job \"%d\" does not exist", id)
		case j.Owner() != by.User && !c.isManager(by.User):
			a.deny("job rejected: %s@%s is not allowed to resubmit jobs of user %s", by.User, by.Host, j.Owner())
		default:
			if !isVerified {
				v.Request = j.Copied()
			}
			if v.Err == nil {
				v.Err = c.resubmit(now, by, j, v, holds, a)
			}
			if v.Err != nil {
				a.deny("%s", v.Err.Error())
			}
		}
		if a.Denied() {
			break // the original stops there, too
		}
	}
	return c.done(a)
}

// resubmit takes in a copy of a job.
func (c *Cell) resubmit(now int64, by Caller, j *Job, v Verified, holds submit.HoldChange, a *Answer) error {
	next := &Job{asked: v.Request, Group: by.Group, Host: by.Host, Origin: by.Origin, Version: j.Version}
	next.sched.ID, next.sched.Owner, next.sched.Submitted = c.numbered(v.Number), by.User, now
	next.copyBeside(j)
	c.changed(next)
	if err := c.describe(now, by, next); err != nil {
		return err
	}
	// What was a time once stays that.
	next.Start, next.sched.Deadline, next.sched.Override = j.Start, j.sched.Deadline, j.sched.Override
	if holds.Clear == 0 && holds.Set != 0 {
		if err := c.mayHold(by, next, holds); err != nil {
			return err
		}
		next.Holds = holds.Set
	}
	if err := c.admit(now, by, next); err != nil {
		return err
	}
	if submitted, err := c.validate(now, next, a); err != nil || !submitted {
		return err
	}
	c.add(now, next)
	if next.Holds != 0 {
		sayHeld(j, a)
	}
	a.ID = next.ID()
	a.say("%s has been submitted", yourJob(next))
	return nil
}

// sayHeld tells of the holds of a copy. The original names the job that was copied, with
// all tasks that it was submitted with.
func sayHeld(j *Job, a *Answer) {
	array := j.asked.Array
	if array == nil {
		a.say("modified hold of %s", jobLabel(j))
		return
	}
	for n := array.First; n <= array.Last; n += array.Step {
		a.say("modified hold of %s", taskLabel(j, uint32(n)))
	}
}
