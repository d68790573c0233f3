package cell

import "time"

const (
	// longestComebackPause is the maximum delay between two runs of a task, in seconds, unless
	// schedule_interval is longer.
	longestComebackPause = 300
	// longRun is the duration of a run, in seconds, after which the next delay is the shortest
	// again.
	longRun = 60
)

// comeBack delays a task that has run since a time and must run again. The delay is at least
// schedule_interval (sched_conf(5)), since the original starts jobs only at these times, and
// doubles after each further short run. A task that did not request the rerun has no delay the
// first time: its supervisor was killed, or it migrates.
func (c *Cell) comeBack(t *Task, since int64, asked bool) {
	if c.now-since >= longRun {
		t.comeback.count = 0
	}
	p := c.comebackPauses()
	if !asked {
		p.free = 1
	}
	c.backOff(t, &t.comeback, p)
}

func (c *Cell) comebackPauses() pauses {
	interval := c.scheduleInterval()
	return pauses{first: interval, longest: max(longestComebackPause, interval)}
}

// scheduleInterval returns schedule_interval in seconds; one second if there are no periodic
// scheduling runs.
func (c *Cell) scheduleInterval() int64 {
	return max(int64(c.cluster.Scheduler().ScheduleInterval/time.Second), 1)
}

// Comeback returns the number of consecutive runs after which a pending task asked to run again,
// and the time (Unix seconds) until which the next run is delayed. ok is false for a task without
// such a delay.
func (t *Task) Comeback(now int64) (runs int, until int64, ok bool) {
	if t.run != nil || !t.comeback.waits(now) {
		return 0, 0, false
	}
	return t.comeback.count, t.comeback.until, true
}
