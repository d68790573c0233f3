package cell

// backoff delays a task if the same event has happened to it several times in a row, for a longer
// time after each event.
type backoff struct {
	count int   // number of events in a row
	until int64 // the task does not start before this time
}

// pauses holds the delays of a backoff.
type pauses struct {
	free    int   // number of events in a row without a delay
	first   int64 // seconds; each further pause is twice as long as the previous one
	longest int64 // seconds
}

// after returns the delay in seconds after count events in a row; 0 for none.
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

// backOff counts one more event in a row, and delays the task accordingly.
func (c *Cell) backOff(t *Task, b *backoff, p pauses) {
	b.count++
	if pause := p.after(b.count); pause > 0 {
		b.until = c.now + pause
		c.wakeAfter(t, *b)
	}
}

// wakeAfter lets a task start as soon as its backoff ends.
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

// backoffEnds reports whether a backoff of one of the job's tasks ends at a time.
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

// backoff returns the backoff of a record. If the clock was set back, the delay is limited to the
// longest one.
func (r backoffRecord) backoff(now int64, p pauses) backoff {
	return backoff{count: r.Count, until: min(r.Until, now+p.longest)}
}
