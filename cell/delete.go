package cell

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// DeleteRequest is a qdel(1) command.
type DeleteRequest struct {
	Jobs  []submit.JobRange
	Users []string // -u
	Force bool     // -f: without waiting for the execution host
}

// Delete executes qdel(1). A running task is killed, and leaves when its end is reported. With
// Force a manager, or a user with permission (ENABLE_FORCED_QDEL), removes it at once.
func (c *Cell) Delete(now int64, by Caller, r DeleteRequest) *Answer {
	c.tick(now)
	a := &Answer{}
	if slices.Contains(r.Users, "*") && !c.isOperator(by.User) {
		a.deny("denied: %q must be manager to modify all jobs", by.User)
		return c.done(a)
	}
	force := r.Force && (c.isOperator(by.User) || c.cluster.Global().QmasterParams.EnableForcedQdel)
	for _, t := range c.targets(by, forDeletion, r.Jobs, r.Users, a) {
		switch j := t.job; {
		case t.absent != "":
			a.deny("%s", t.absent)
		case c.jobs[j.ID()] != j: // named twice
			if _, numbered := jobNumber(t.job.Name()); !numbered {
				a.deny("The job %s of user(s) %s does not exist", j.Name(), by.User)
			}
		case !c.mayChange(by, j):
			a.deny("%s - you do not have the necessary privileges to delete the job \"%d\"", by.User, j.ID())
		default:
			c.deleteJob(now, by, t, force, a)
		}
	}
	return c.done(a)
}

func (c *Cell) deleteJob(now int64, by Caller, t target, force bool, a *Answer) {
	j := t.job
	c.sayMissing(t, a)
	waiting, tasks := j.selected(t.ranges)
	if waiting.IsEmpty() && len(tasks) == 0 {
		return
	}
	rest := waiting
	for _, x := range tasks {
		if x.run == nil {
			rest = rest.Add(int(x.Number))
		}
	}
	var killed []*Task
	if t.ranges == nil {
		killed = c.remove(now, j, nil)
	} else {
		c.touchJob(j, jobState)
		for n := range waiting.All() {
			j.Waiting = j.Waiting.Remove(n)
		}
		c.waitingGone(j, waiting)
		killed = c.remove(now, j, append([]*Task{}, tasks...))
	}
	for _, k := range killed {
		label := k.label()
		if k.DeletedBy == "" {
			k.DeletedBy = by.User + "@" + by.Host
			c.touchTask(k)
		}
		if !force {
			a.say("%s has registered the %s for deletion", by.User, label)
			continue
		}
		c.stop(k)
		c.drop(k)
		c.taskEnded(j, int(k.Number))
		a.say("%s forced the deletion of %s", by.User, label)
	}
	if force && c.jobs[j.ID()] == j && j.gone() {
		c.leave(now, j)
	}
	switch {
	case rest.IsEmpty():
	case t.ranges == nil || !j.IsArray():
		a.say("%s has deleted %s", by.User, jobLabel(j))
	case rest.Len() == 1:
		a.say("%s has deleted %s", by.User, taskLabel(j, uint32(rest.First())))
	default:
		a.say("%s has deleted job-array tasks %s of %s", by.User, rangesText(rest), jobLabel(j))
	}
}

// sayMissing denies the tasks of a command that do not exist.
func (c *Cell) sayMissing(t target, a *Answer) {
	for _, r := range t.ranges {
		waiting, tasks := t.job.selected([]submit.Array{r})
		if waiting.IsEmpty() && len(tasks) == 0 {
			name, who := itoa(t.job.ID()), ""
			if t.name != "" {
				name, who = t.name, "user(s) "+t.job.Owner()
			}
			switch {
			case r.Len() > 1 && who != "":
				a.deny("job %q task id range %q comprises no tasks under %s", name, r.String(), who)
			case r.Len() > 1:
				a.deny("job %q task id range %q comprises no tasks", name, r.String())
			case who != "":
				a.deny("job %q task \"%d\" does not exist for %s", name, r.First, who)
			default:
				a.deny("job %q task \"%d\" does not exist", name, r.First)
			}
		}
	}
}

// rangesText returns a list of tasks as commands print it: with the step of each range. Tasks at equal
// distances are one range.
func rangesText(l rangelist.List) string {
	if all := slices.Collect(l.All()); len(all) > 2 {
		step := all[1] - all[0]
		even := true
		for i, n := range all {
			even = even && n == all[0]+i*step
		}
		if even {
			return strconv.Itoa(all[0]) + "-" + strconv.Itoa(all[len(all)-1]) + ":" + strconv.Itoa(step)
		}
	}
	text := ""
	for r := range l.Ranges() {
		if text != "" {
			text += ","
		}
		text += strconv.Itoa(r.First)
		switch n := (r.Last-r.First)/r.Step + 1; {
		case n == 2:
			text += "," + strconv.Itoa(r.Last)
		case n > 2:
			text += "-" + strconv.Itoa(r.Last) + ":" + strconv.Itoa(r.Step)
		}
	}
	return text
}
