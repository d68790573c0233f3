package cell

import (
	"github.com/execd-project/execd/submit"
)

// Verified is the result of verifying a copy of a job: a number of TakeNumber with the changed
// request, or the reason of the refusal.
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

// CopyOrder returns jobs in the order in which Resubmit copies them: the last one first, then the
// others as they are named (tested).
func CopyOrder(jobs []submit.JobRange) []submit.JobRange {
	if len(jobs) == 0 {
		return nil
	}
	last := len(jobs) - 1
	return append([]submit.JobRange{jobs[last]}, jobs[:last]...)
}

// Resubmit executes qresub(1): it submits copies of jobs for the caller, in the order of CopyOrder.
// The answer has the number of the last copy. A copy has the holds of -h, not those of the job. As
// in the original, a refused copy uses up its number, and nothing is copied after the first refusal,
// but each further job that does not exist has its message. verified holds the results of a
// verifier, by job number; if it is nil, jobs are copied unchanged.
func (c *Cell) Resubmit(now int64, by Caller, jobs []submit.JobRange, holds submit.HoldChange, verified map[uint32]Verified) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, r := range CopyOrder(jobs) {
		if r.Tasks != nil {
			a.deny(Event{Kind: NoTasksSelected})
			continue
		}
		id, _ := jobNumber(r.Job) // 0 for a name
		j := c.jobs[id]
		v, isVerified := verified[id]
		switch {
		case j == nil || verified != nil && !isVerified: // the job has arrived after the verification
			a.deny(Event{Kind: NoJobToCopy, Job: id})
		case j.Owner() != by.User && !c.isManager(by.User):
			a.deny(Event{Kind: MayNotCopy, User: by.User, Host: by.Host, Name: j.Owner()})
		case a.Denied():
			c.numbered(v.Number)
		default:
			if !isVerified {
				v.Request = j.Copied()
			}
			if v.Err == nil {
				v.Err = c.resubmit(now, by, j, v, holds, a)
			}
			if v.Err != nil {
				a.refuse(v.Err)
			}
		}
	}
	return c.done(a)
}

// resubmit adds a copy of a job.
func (c *Cell) resubmit(now int64, by Caller, j *Job, v Verified, holds submit.HoldChange, a *Answer) error {
	next := &Job{asked: v.Request, Group: by.Group, Host: by.Host, Origin: by.Origin, Version: j.Version}
	next.sched.ID, next.sched.Owner, next.sched.Submitted = c.numbered(v.Number), by.User, now
	next.copyScriptFile(j)
	c.changed(next)
	if err := c.describe(now, by, next); err != nil {
		return err
	}
	// Times are not relative: the copy has the same ones.
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
	if by.Confirms != nil {
		var err error
		if next.Submission, err = by.Confirms(j, v.Request); err != nil {
			return err
		}
	}
	if passed, err := c.validate(now, next, a); err != nil || !passed {
		return err
	}
	c.add(now, next)
	if next.Holds != 0 {
		sayHeld(j, a)
	}
	a.ID = next.ID()
	a.say(submitted(next))
	return nil
}

// sayHeld reports the holds of a copy. The original names the copied job, with all tasks of its
// submission.
func sayHeld(j *Job, a *Answer) {
	array := j.asked.Array
	if array == nil {
		a.say(Event{Kind: HoldModified, Job: j.ID()})
		return
	}
	for n := array.First; n <= array.Last; n += array.Step {
		a.say(Event{Kind: HoldModified, Job: j.ID(), Task: uint32(n)})
	}
}
