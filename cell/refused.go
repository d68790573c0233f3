package cell

// refusal is the refusal of a task's last start by its host.
type refusal struct {
	backoff
	host   string
	reason string
}

// refusalPauses returns the pauses of a task that its host refuses: at first until the next
// scheduling run, because most reasons are transient, and then 2, 4, 8 seconds and so on.
func refusalPauses() pauses { return pauses{free: 1, first: 2, longest: 60} }

// refuse delays a task that its host refused.
func (c *Cell) refuse(t *Task, host, reason string) {
	if t.refused == nil {
		t.refused = &refusal{}
	}
	t.refused.host, t.refused.reason = host, reason
	c.backOff(t, &t.refused.backoff, refusalPauses())
}

// Refusal returns the host that refused the last start of a pending task, the reason, and the time
// of the next attempt; ok is false if the last start was not refused.
func (t *Task) Refusal() (host, reason string, again int64, ok bool) {
	if t.refused == nil || t.run != nil {
		return "", "", 0, false
	}
	return t.refused.host, t.refused.reason, t.refused.until, true
}

// RefusedFor reports whether the previous start of the task was refused for this reason.
func (t *Task) RefusedFor(reason string) bool {
	return t.refused != nil && t.refused.reason == shortReason(reason)
}
