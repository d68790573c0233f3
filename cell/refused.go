package cell

// refusal is the last start of a task, which its host has refused.
type refusal struct {
	backoff
	host   string
	reason string
}

// refusalPauses makes a task that its host refuses wait for the next scheduling run the first
// time, as most reasons pass at once, and then 2, 4, 8 seconds and so on.
func refusalPauses() pauses { return pauses{free: 1, first: 2, longest: 60} }

// refuse makes a task wait that its host refused.
func (c *Cell) refuse(t *Task, host, reason string) {
	if t.refused == nil {
		t.refused = &refusal{}
	}
	t.refused.host, t.refused.reason = host, reason
	c.backOff(t, &t.refused.backoff, refusalPauses())
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
