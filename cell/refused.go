package cell

// refusal is what is known of the starts of a task that its host has not taken, one after
// another.
type refusal struct {
	count  int
	until  int64 // the task waits so long
	host   string
	reason string
}

// mostRefusalPause is how many seconds a task waits at most that is refused again and again.
const mostRefusalPause = 60

// refuse makes a task wait that its host refused: the first time for the next scheduling
// run, as most reasons pass at once, and then 2, 4, 8 seconds and so on.
func (c *Cell) refuse(t *Task, host, reason string) {
	r := t.refused
	if r == nil {
		r = &refusal{}
		t.refused = r
	}
	r.count++
	r.host, r.reason = host, reason
	if r.count == 1 {
		return
	}
	pause := int64(mostRefusalPause)
	if n := r.count - 1; n < 6 {
		pause = 1 << n
	}
	r.until = c.now + pause
	c.timers.add(timer{at: r.until, kind: refusedAgain, id: t.Job.ID()})
}

// Refusal returns which host has refused the last start of a waiting task, why, and when the
// task is tried again; ok is false for a task that was not refused.
func (t *Task) Refusal() (host, reason string, again int64, ok bool) {
	if t.refused == nil || t.run != nil {
		return "", "", 0, false
	}
	return t.refused.host, t.refused.reason, t.refused.until, true
}

// RefusedFor reports whether the start of the task before this one was refused for a reason.
func (t *Task) RefusedFor(reason string) bool {
	return t.refused != nil && t.refused.reason == shortReason(reason)
}

// refusedUntil reports whether a task of a job waits until a time since it was refused.
func (j *Job) refusedUntil(at int64) bool {
	for _, t := range j.tasks {
		if t.refused != nil && t.refused.until == at {
			return true
		}
	}
	return false
}
