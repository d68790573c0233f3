package cell

import (
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// followThresholds suspends and resumes what suspend thresholds do (queue_conf(5),
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
		// The interval of the queue of the master task begins, whichever queue had the alarm.
		master := t.run.Grants[0].Instance
		c.places[master].checked = now
		c.touchInstance(master)
		c.state.ThresholdChecked(master, now)
	}
}

// thresholdDue returns when the suspend thresholds of an instance may do something again.
func (c *Cell) thresholdDue(place int) (int64, bool) {
	p := &c.places[place]
	if p.checked == 0 || len(p.tasks) == 0 {
		return 0, false
	}
	settings := c.model.Settings(scheduler.InstanceID(place))
	if len(settings.SuspendThresholds) == 0 || settings.SuspendInterval == qconf.Forever {
		return 0, false
	}
	// Once it has been looked at then, only a report can change anything.
	at := p.checked + int64(settings.SuspendInterval.Seconds())
	return at, at > c.now
}
