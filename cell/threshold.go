package cell

import (
	"math"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// suspendByThresholds applies suspend thresholds (queue_conf(5), suspend_thresholds,
// nsuspend, suspend_interval): an instance in alarm loses the tasks that started last,
// and gets back those that started first when the alarm is over.
func (c *Cell) suspendByThresholds(now int64) {
	for i := range c.places {
		id := scheduler.InstanceID(i)
		settings := c.model.Settings(id)
		if len(settings.SuspendThresholds) == 0 || settings.NSuspend == 0 || settings.SuspendInterval == 0 || len(c.places[i].tasks) == 0 {
			continue
		}
		if p := &c.places[i]; p.checked != 0 && after(p.checked, settings) > now {
			continue
		}
		status := c.state.Status(id)
		if status&scheduler.Unknown != 0 {
			continue
		}
		_, alarm := c.state.SuspendAlarm(id, now)
		acted := false
		for range settings.NSuspend {
			if alarm && status&scheduler.Suspended == 0 {
				if t := c.lastStarted(id); t != nil {
					t.byThreshold, acted = true, true
					c.resuspend(t)
					continue
				}
			}
			if !alarm {
				if t := c.firstSuspended(id); t != nil {
					t.byThreshold, acted = false, true
					c.resuspend(t)
					continue
				}
			}
			break
		}
		if acted {
			c.places[i].checked = now
			c.balanceSlots(c.model.HostOf(id))
		}
	}
}

// after is when the thresholds of an instance may lead to something again.
func after(checked int64, settings *qconf.QueueInstance) int64 {
	if settings.SuspendInterval == qconf.Forever {
		return math.MaxInt64
	}
	return checked + int64(settings.SuspendInterval.Seconds())
}

// lastStarted is the running task in an instance that has the latest start.
func (c *Cell) lastStarted(id scheduler.InstanceID) *Task {
	var last *Task
	for _, t := range c.places[id].tasks {
		if t.run.Suspended == 0 && (last == nil || t.Started > last.Started) {
			last = t
		}
	}
	return last
}

// firstSuspended is the task with the earliest start of those that thresholds have
// suspended and that have their master in the instance.
func (c *Cell) firstSuspended(id scheduler.InstanceID) *Task {
	i := slices.IndexFunc(c.places[id].tasks, func(t *Task) bool { return t.byThreshold && master(t) == id })
	if i < 0 {
		return nil
	}
	return c.places[id].tasks[i]
}

// thresholdDue is when the suspend thresholds of an instance may do something again.
func (c *Cell) thresholdDue(place int) (int64, bool) {
	p := &c.places[place]
	if p.checked == 0 || len(p.tasks) == 0 {
		return 0, false
	}
	settings := c.model.Settings(scheduler.InstanceID(place))
	if len(settings.SuspendThresholds) == 0 || settings.SuspendInterval == qconf.Forever {
		return 0, false
	}
	at := after(p.checked, settings)
	if at <= c.now {
		// It has been looked at since: only a report can change anything.
		return 0, false
	}
	return at, true
}
