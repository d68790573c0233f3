package cell

// backoff makes a task wait because the same thing has happened to it several times in a row:
// longer each time.
type backoff struct {
	count int   // how many times in a row
	until int64 // the task does not start before this time
}

// pauses says how long the pauses of a backoff are.
type pauses struct {
	free    int   // how many times in a row cost no pause
	first   int64 // seconds; each further pause is twice as long as the previous one
	longest int64 // seconds
}

// after returns the pause in seconds after something has happened count times in a row; 0 for none.
func (p pauses) after(count int) int64 {
	doublings := count - p.free - 1
	if doublings < 0 {
		return 0
	}
	pause := p.first
	for ; doublings > 0 && pause < p.longest; doublings-- {
		pause *= 2
	}
	return min(pause, p.longest)
}

// backOff counts one more time in a row, and makes the task of the backoff wait for the pause that
// follows it.
func (c *Cell) backOff(t *Task, b *backoff, p pauses) {
	b.count++
	if pause := p.after(b.count); pause > 0 {
		b.until = c.now + pause
		c.wakeAfter(t, *b)
	}
}

// wakeAfter lets a task start as soon as a backoff is over.
func (c *Cell) wakeAfter(t *Task, b backoff) {
	if b.waits(c.now) {
		c.timers.add(timer{at: b.until, kind: backoffOver, id: t.Job.ID()})
	}
}

func (b backoff) waits(now int64) bool { return b.until > now }

// backoffs returns all backoffs of a task.
func (t *Task) backoffs() [2]backoff {
	list := [2]backoff{t.comeback}
	if t.refused != nil {
		list[1] = t.refused.backoff
	}
	return list
}

// backsOff reports whether a task waits for the end of a backoff.
func (t *Task) backsOff(now int64) bool {
	for _, b := range t.backoffs() {
		if b.waits(now) {
			return true
		}
	}
	return false
}

// backoffEnds reports whether a backoff of a task of the job ends at a time.
func (j *Job) backoffEnds(at int64) bool {
	for _, t := range j.tasks {
		for _, b := range t.backoffs() {
			if b.until == at {
				return true
			}
		}
	}
	return false
}

// record returns the stored form of a backoff.
func (b backoff) record() backoffRecord { return backoffRecord{Count: b.count, Until: b.until} }

// backoff returns the backoff of a record. The task waits no longer than for the longest pause, if
// the clock was set back.
func (r backoffRecord) backoff(now int64, p pauses) backoff {
	return backoff{count: r.Count, until: min(r.Until, now+p.longest)}
}
