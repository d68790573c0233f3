package cell

import (
	"github.com/execd-project/execd/submit"
)

// Hold executes qhold(1), qrls(1) and qalter -h.
func (c *Cell) Hold(now int64, by Caller, jobs []submit.JobRange, users []string, change submit.HoldChange) *Answer {
	c.tick(now)
	a := &Answer{}
	if !c.mayAlter(&submit.Alteration{Jobs: jobs, Users: users, Options: []string{"-h"}}, a) {
		return c.done(a)
	}
	for _, t := range c.targets(by, forChange, jobs, users, a) {
		if t.absent != nil {
			a.deny(*t.absent)
			continue
		}
		c.holdJob(by, t, change, a)
	}
	return c.done(a)
}

// mayHold checks that a user may set or remove these holds: owners user holds, operators operator
// holds, managers all holds (qsub(1), -h).
func (c *Cell) mayHold(by Caller, j *Job, change submit.HoldChange) error {
	if !c.mayChange(by, j) {
		return notOwner(by, j)
	}
	e := Event{User: by.User, Remove: change.Clear != 0}
	h := change.Set | change.Clear
	switch {
	case h&submit.HoldSystem != 0 && !c.isManager(by.User):
		e.Kind = HoldNeedsManager
		return denied(e)
	case h&submit.HoldOperator != 0 && !c.isOperator(by.User):
		e.Kind = HoldNeedsOperator
		return denied(e)
	}
	return nil
}

func notOwner(by Caller, j *Job) error {
	return denied(Event{Kind: MayNotAlter, User: by.User, Job: j.ID()})
}

func (c *Cell) holdJob(by Caller, t target, change submit.HoldChange, a *Answer) {
	j := t.job
	waiting, tasks := j.selected(t.ranges)
	// Every user may remove a hold that is not set (tested).
	there := submit.Holds(0)
	if !waiting.IsEmpty() {
		there = j.Holds
	}
	for _, x := range tasks {
		there |= x.Holds
	}
	// n removes all holds, including the manager's, whether they are set or not.
	if change.Clear == submit.AllHolds && there != 0 && c.mayChange(by, j) && !c.isManager(by.User) {
		a.deny(Event{Kind: HoldNeedsManager, User: by.User, Remove: true})
		return
	}
	change.Clear &= there
	if err := c.mayHold(by, j, change); err != nil {
		a.refuse(err)
		return
	}
	next := j.Holds&^change.Clear | change.Set
	alone := next != j.Holds && !waiting.IsEmpty() && waiting.Len() < j.Waiting.Len() // the tasks get their own holds
	if alone {
		if err := c.checkRoom(TaskHolds, j.Owner(), ofRecords(taskRoom*int64(waiting.Len()))); err != nil {
			a.refuse(err)
			return
		}
	}
	c.sayMissing(t, a)
	version := j.Version + 1
	modified := func(number uint32) {
		j.Version = version
		e := Event{Kind: HoldModified, Job: j.ID()}
		if j.IsArray() {
			e.Task = number
		}
		a.say(e)
	}
	if next != j.Holds && !waiting.IsEmpty() {
		for n := range waiting.All() {
			modified(uint32(n))
		}
		if !alone {
			j.Holds = next
		} else {
			for _, x := range c.enrolAll(j, waiting) {
				x.Holds = next
			}
		}
	}
	for _, x := range tasks {
		if next := x.Holds&^change.Clear | change.Set; next != x.Holds {
			x.Holds = next
			c.touchTask(x)
			modified(x.Number)
		}
	}
	// The original also counts a change that leaves all holds as they were (tested). Holds and
	// version are in the same record.
	c.changed(j)
	c.refresh(j)
}
