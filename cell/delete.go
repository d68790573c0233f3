package cell

import (
	"slices"

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
		a.deny(Event{Kind: AllJobsNeedManager, User: by.User})
		return c.done(a)
	}
	force := r.Force && (c.isOperator(by.User) || c.cluster.Global().QmasterParams.EnableForcedQdel)
	for _, t := range c.targets(by, forDeletion, r.Jobs, r.Users, a) {
		switch j := t.job; {
		case t.absent != nil:
			a.deny(*t.absent)
		case c.jobs[j.ID()] != j: // named twice
			if _, numbered := jobNumber(t.job.Name()); !numbered {
				a.deny(Event{Kind: NoSuchJobOfUsers, Name: j.Name(), Names: []string{by.User}})
			}
		case !c.mayChange(by, j):
			a.deny(Event{Kind: MayNotDelete, User: by.User, Job: j.ID()})
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
	var enrolled []int
	for _, x := range tasks {
		if x.run == nil {
			enrolled = append(enrolled, int(x.Number))
		}
	}
	rest := waiting.AddAll(enrolled)
	var killed []*Task
	if t.ranges == nil {
		killed = c.remove(now, j, nil)
	} else {
		c.touchJob(j, jobState)
		j.Waiting = j.Waiting.Without(waiting)
		c.waitingGone(j, waiting)
		killed = c.remove(now, j, append([]*Task{}, tasks...))
	}
	for _, k := range killed {
		again := k.DeletedBy != ""
		if !again {
			k.DeletedBy = by.User + "@" + by.Host
			c.touchTask(k)
		}
		if !force {
			kind := DeletionRegistered
			if again {
				kind = AlreadyInDeletion
			}
			a.say(k.about(Event{Kind: kind, User: by.User}))
			continue
		}
		c.stop(k)
		c.drop(k)
		c.taskEnded(j, int(k.Number))
		a.say(k.about(Event{Kind: DeletionForced, User: by.User}))
	}
	if force && c.jobs[j.ID()] == j && j.gone() {
		c.leave(now, j)
	}
	switch {
	case rest.IsEmpty():
	case t.ranges == nil || !j.IsArray():
		a.say(Event{Kind: JobDeleted, User: by.User, Job: j.ID()})
	case rest.Len() == 1:
		a.say(Event{Kind: JobDeleted, User: by.User, Job: j.ID(), Task: uint32(rest.First())})
	default:
		a.say(Event{Kind: TasksDeleted, User: by.User, Job: j.ID(), Tasks: rest})
	}
}

// sayMissing denies the tasks of a command that do not exist.
func (c *Cell) sayMissing(t target, a *Answer) {
	for _, r := range t.ranges {
		waiting, tasks := t.job.selected([]submit.Array{r})
		if waiting.IsEmpty() && len(tasks) == 0 {
			e := Event{Kind: NoSuchTasks, Job: t.job.ID(), Array: &r}
			if t.name != "" {
				e.Job, e.Name, e.User = 0, t.name, t.job.Owner()
			}
			a.deny(e)
		}
	}
}
