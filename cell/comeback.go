package cell

import "time"

// comeback is what is known of the last runs of a task that have ended for it to be run again.
type comeback struct {
	count int   // of such runs, one after the other, none of which lasted long
	until int64 // the task waits so long
}

const (
	// mostComebackPause is how many seconds a task waits at most between two runs, unless
	// schedule_interval is longer.
	mostComebackPause = 300
	// longRun is how many seconds a run has to last for the next pause to be the shortest again.
	longRun = 60
)

// comeBack makes a task wait that ran since a time and has to run again: at least for
// schedule_interval (sched_conf(5)), as with the original, which starts jobs only then, and twice
// as long after each further short run. A task that did not ask for it goes on at once the
// first time: its supervisor was killed, or it migrates.
func (c *Cell) comeBack(t *Task, since int64, asked bool) {
	if c.now-since >= longRun {
		t.back.count = 0
	}
	t.back.count++
	doubled := t.back.count - 1
	if !asked {
		doubled--
	}
	if doubled < 0 {
		return
	}
	interval := c.scheduleInterval()
	pause := c.mostComebackPause()
	if doubled < 16 {
		pause = min(pause, interval<<doubled)
	}
	t.back.until = c.now + pause
	c.timers.add(timer{at: t.back.until, kind: comesBack, id: t.Job.ID()})
}

// scheduleInterval returns schedule_interval in seconds; one second where there are no runs of the
// scheduler by the clock.
func (c *Cell) scheduleInterval() int64 {
	return max(int64(c.cluster.Scheduler().ScheduleInterval/time.Second), 1)
}

func (c *Cell) mostComebackPause() int64 { return max(mostComebackPause, c.scheduleInterval()) }

// Comeback returns how often in a row a waiting task has ended to be run again, and until when
// it waits for that; ok is false for a task that does not.
func (t *Task) Comeback(now int64) (runs int, until int64, ok bool) {
	if t.run != nil || t.back.until <= now {
		return 0, 0, false
	}
	return t.back.count, t.back.until, true
}

// comesBackAt reports whether a task of a job waits for its next run until a time.
func (j *Job) comesBackAt(at int64) bool {
	for _, t := range j.tasks {
		if t.run == nil && t.back.until == at {
			return true
		}
	}
	return false
}
