package cell

import "time"

const (
	// longestComebackPause is how many seconds a task waits at most between two runs, unless
	// schedule_interval is longer.
	longestComebackPause = 300
	// longRun is how many seconds a run has to last for the next pause to be the shortest again.
	longRun = 60
)

// comeBack makes a task wait that ran since a time and has to run again: at least for
// schedule_interval (sched_conf(5)), as with the original, which starts jobs only then, and twice
// as long after each further short run. A task that did not ask for it goes on at once the
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

// scheduleInterval returns schedule_interval in seconds; one second where there are no runs of the
// scheduler by the clock.
func (c *Cell) scheduleInterval() int64 {
	return max(int64(c.cluster.Scheduler().ScheduleInterval/time.Second), 1)
}

// Comeback returns the number of consecutive runs that a pending task ended in order to be run
// again, and the time (Unix seconds) until which it waits. ok is false for a task that does not
// wait for that.
func (t *Task) Comeback(now int64) (runs int, until int64, ok bool) {
	if t.run != nil || !t.comeback.waits(now) {
		return 0, 0, false
	}
	return t.comeback.count, t.comeback.until, true
}
