package cell

import (
	"cmp"
	"slices"

	"github.com/execd-project/execd/scheduler"
)

// instance holds the data of the cell about a queue instance, in addition to its status.
type instance struct {
	tasks   []*Task  // tasks with slots there, in the order of their starts
	errors  []string // reasons for its error state, caused by jobs; see also Cell.refusing
	checked int64    // time at which suspend thresholds last suspended or resumed a task
}

// TasksIn returns the tasks that have slots of a queue instance, in the order of their starts.
func (c *Cell) TasksIn(id scheduler.InstanceID) []*Task { return c.instances[id].tasks }

// occupy registers a task with the instances where it has slots.
func (c *Cell) occupy(t *Task) {
	for _, g := range t.run.Grants {
		p := &c.instances[g.Instance]
		if i, found := slices.BinarySearchFunc(p.tasks, t, compareStarts); !found {
			p.tasks = slices.Insert(p.tasks, i, t)
		}
	}
}

func compareStarts(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Job.ID(), b.Job.ID()), cmp.Compare(a.Number, b.Number))
}

func (c *Cell) vacate(t *Task) {
	for _, g := range t.run.Grants {
		p := &c.instances[g.Instance]
		if i, found := slices.BinarySearchFunc(p.tasks, t, compareStarts); found {
			p.tasks = slices.Delete(p.tasks, i, i+1)
		}
	}
}

// leftBehind checks whether orphaned instances are no longer in use.
func (c *Cell) leftBehind(grants []scheduler.Grant) {
	for _, g := range grants {
		c.stale = c.stale || c.state.Status(g.Instance)&scheduler.Orphaned != 0 && len(c.instances[g.Instance].tasks) == 0
	}
}

// keptStatus holds the states that are stored, since they do not follow from other data.
const keptStatus = scheduler.Failed | scheduler.DisabledByUser | scheduler.SuspendedByUser

// setStatus changes the state of a queue instance and of its tasks.
func (c *Cell) setStatus(id scheduler.InstanceID, status scheduler.Status) {
	before := c.state.Status(id)
	if before == status {
		return
	}
	c.state.SetStatus(id, status)
	if (before^status)&keptStatus != 0 {
		c.touchInstance(id)
	}
	if (before^status)&scheduler.Suspended == 0 {
		c.lookAtReservationsOf(id)
		return
	}
	resumed := status&scheduler.Suspended == 0
	for _, t := range c.instances[id].tasks {
		if (before&scheduler.Suspended == 0) != resumed && t.resumed != resumed {
			t.resumed = resumed
			c.touchTask(t)
		}
		c.resuspend(t)
	}
	c.lookAtReservationsOf(id)
	c.balanceSlots(c.model.HostOf(id), true, true)
}

// resuspend updates the reasons why a task is suspended, and suspends or resumes it if needed.
func (c *Cell) resuspend(t *Task) {
	if t.run == nil {
		return
	}
	why, before := c.suspensions(t), t.run.Suspended
	if why&(scheduler.ByUser|scheduler.ByThreshold) != 0 && !t.run.Idle() && c.decisions != nil {
		p, _ := c.decisions.OfRunning(t.run)
		t.run.Urgency = p.NormalizedUrgency
		c.touchTask(t)
	}
	t.run.Suspended = why
	switch {
	case before == 0 && why != 0:
		c.act(SuspendTask, t)
	case before != 0 && why == 0:
		c.act(ResumeTask, t)
	}
}

// suspensions returns the reasons why a running task is suspended.
func (c *Cell) suspensions(t *Task) (why scheduler.Suspension) {
	if t.byUser {
		why |= scheduler.ByUser
	}
	if t.byThreshold {
		why |= scheduler.ByThreshold
	}
	if t.slotwise {
		why |= scheduler.BySubordinate
	}
	if t.resumed {
		// A parallel task is suspended with any of its instances. It also resumes with any of them,
		// even if others are still suspended (tested).
		return why
	}
	for _, g := range t.run.Grants {
		status := c.state.Status(g.Instance)
		if status&(scheduler.SuspendedByUser|scheduler.SuspendedByCalendar) != 0 {
			why |= scheduler.ByQueue
		}
		if status&scheduler.Subordinated != 0 {
			why |= scheduler.BySubordinate
		}
	}
	return why
}
