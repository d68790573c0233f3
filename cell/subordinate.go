package cell

import (
	"slices"

	"github.com/execd-project/execd/scheduler"
)

func (c *Cell) hostsOf(grants []scheduler.Grant) []scheduler.HostID {
	var hosts []scheduler.HostID
	for _, g := range grants {
		if h := c.model.HostOf(g.Instance); !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func master(t *Task) scheduler.InstanceID { return t.run.Grants[0].Instance }

// subordinate applies subordination on hosts after slots were taken or released. before holds the
// slots that were used until then.
func (c *Cell) subordinate(hosts []scheduler.HostID, before map[scheduler.InstanceID]int) {
	for _, h := range hosts {
		list, taken := c.subordination.crossings(h, before)
		for _, x := range list {
			c.followCrossing(x)
		}
		// A start resumes no task there, and an end suspends none (tested).
		c.balanceSlots(h, taken >= 0, taken <= 0)
	}
}

// followCrossing suspends or resumes a queue instance after a superordinate one has begun or ceased
// to suspend it.
func (c *Cell) followCrossing(x crossing) {
	status := c.state.Status(x.instance) &^ scheduler.Subordinated
	if c.subordination.count(x) {
		status |= scheduler.Subordinated
	}
	c.setStatus(x.instance, status)
}

// resubordinate applies subordination on a host after the configuration has changed.
func (c *Cell) resubordinate(h scheduler.HostID) {
	before := map[scheduler.InstanceID]int{}
	for _, id := range c.model.InstancesOn(h) {
		before[id] = 0
	}
	c.subordinate([]scheduler.HostID{h}, before)
	c.balanceSlots(h, true, true)
}

// subordinations restores which instances are suspended queue-wise. It suspends no tasks: their
// records say whether they are suspended.
func (r *restoring) subordinations() {
	c := r.cell
	for i := range c.places {
		over := scheduler.InstanceID(i)
		for _, sub := range c.subordination.queueWise(over) {
			if sub.reached(c.state.UsedSlots(over)) {
				c.subordination.count(crossing{instance: sub.instance, suspends: true})
				c.state.SetStatus(sub.instance, c.state.Status(sub.instance)|scheduler.Subordinated)
			}
		}
	}
}

// balanceSlots applies slot-wise subordination on a host. If suspend is set, it suspends tasks until
// no more than the threshold run in each tree. If resume is set, it resumes tasks while fewer run.
// A parallel task is suspended and resumed on any of its hosts (tested).
func (c *Cell) balanceSlots(h scheduler.HostID, suspend, resume bool) {
	for _, tree := range c.subordination.trees(h) {
		running := c.subordination.running(tree)
		for ; suspend && running > tree.threshold; running-- {
			if !c.suspendSlotwise(c.subordination.toSuspend(tree), true) {
				break
			}
		}
		for ; resume && running < tree.threshold; running++ {
			if !c.suspendSlotwise(c.subordination.toResume(tree), false) {
				break
			}
		}
	}
}

// suspendSlotwise suspends or resumes a task slot-wise. It returns false if there is no such task.
func (c *Cell) suspendSlotwise(t *Task, suspended bool) bool {
	if t == nil {
		return false
	}
	t.slotwise = suspended
	c.touchTask(t)
	c.resuspend(t)
	return true
}
