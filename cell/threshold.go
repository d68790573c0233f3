package cell

import (
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// followThresholds carries out the actions of suspend thresholds (queue_conf(5),
// suspend_thresholds).
func (c *Cell) followThresholds(now int64, list []scheduler.ThresholdAction) {
	for _, a := range list {
		j := c.jobs[a.Task.Job.ID]
		if j == nil {
			continue
		}
		t := j.task(a.Task.Task)
		if t == nil || t.run != a.Task {
			continue
		}
		t.byThreshold = !a.Resume
		c.touchTask(t)
		c.resuspendOn(t)
		// The interval of the master task's queue begins, whichever queue had the alarm.
		master := t.run.Grants[0].Instance
		c.instances[master].checked = now
		c.touchInstance(master)
		c.state.ThresholdChecked(master, now)
	}
}

// thresholdDue returns the time of the next action of an instance's suspend thresholds.
func (c *Cell) thresholdDue(index int) (int64, bool) {
	p := &c.instances[index]
	if p.checked == 0 || len(p.tasks) == 0 {
		return 0, false
	}
	settings := c.model.Settings(scheduler.InstanceID(index))
	if len(settings.SuspendThresholds) == 0 || settings.SuspendInterval == qconf.Forever {
		return 0, false
	}
	// After a check at that time only a report can change the result.
	at := p.checked + int64(settings.SuspendInterval.Seconds())
	return at, at > c.now
}
