package cell

import (
	"errors"
	"testing"
)

// rate is a cluster in which users may submit three jobs per minute.
var rate = small.with(files{"conf/global": "qmaster_params max_u_submissions=3/0:1:0"})

func (h *harness) submits(user, line, refusal string) {
	h.t.Helper()
	_, err := h.try(user, line)
	var refused *DeniedError
	switch {
	case refusal == "" && err != nil:
		h.t.Errorf("%s cannot submit %q: %v", user, line, err)
	case refusal != "" && (!errors.As(err, &refused) || eventText(refused.Event) != refusal):
		h.t.Errorf("%s submits %q: %v, want %q", user, line, err, refusal)
	}
}

// TestSubmissionRate checks that a user may submit a number of jobs at once, and then one whenever
// its part of the period has passed.
func TestSubmissionRate(t *testing.T) {
	h := newHarness(t, rate)
	h.now = 1_000_000_020 // 01:47:00
	h.submits("alice", "-N a", "")
	h.submits("alice", "-t 1-100", "") // an array job is one submission
	h.submits("alice", "-l nosuch=1", `unknown resource "nosuch"`)
	h.submits("alice", "-now y", "")
	h.submits("alice", "-N d", "job rejected: only 3 jobs are allowed per user and 60 seconds (max_u_submissions): try again in 20 seconds, at 01:47:20")
	h.submits("bob", "-N b", "")
	for range 10 {
		h.submits("root", "-N r", "")
	}
	h.wait(19)
	h.submits("alice", "-N d", "job rejected: only 3 jobs are allowed per user and 60 seconds (max_u_submissions): try again in 1 second, at 01:47:20")
	h.wait(1)
	h.submits("alice", "-N d", "")
	h.submits("alice", "-N e", "job rejected: only 3 jobs are allowed per user and 60 seconds (max_u_submissions): try again in 20 seconds, at 01:47:40")
	// After any time without submissions the number at once is the same.
	h.wait(10_000)
	for range 3 {
		h.submits("alice", "-N f", "")
	}
	h.submits("alice", "-N g", "job rejected: only 3 jobs are allowed per user and 60 seconds (max_u_submissions): try again in 20 seconds, at 04:34:20")
	// If the clock is set back, users do not have to wait until the previous time.
	h.wait(-5_000)
	h.submits("alice", "-N g", "job rejected: only 3 jobs are allowed per user and 60 seconds (max_u_submissions): try again in 20 seconds, at 03:11:00")
}

// TestRateOfCopies checks that qresub counts as a submission.
func TestRateOfCopies(t *testing.T) {
	h := newHarness(t, rate)
	id := h.sub("alice", "-N a")
	h.submits("alice", "-N b", "")
	h.resubmit("alice", "", itoa(id))
	if a := h.resubmit("alice", "", itoa(id)); !a.Denied() {
		t.Errorf("%+v", a)
	}
}

// TestRateThatChanges checks that a new limit applies at once, and so does its removal.
func TestRateThatChanges(t *testing.T) {
	h := newHarness(t, rate)
	for range 3 {
		h.submits("alice", "-N a", "")
	}
	h.change(small.with(files{"conf/global": "qmaster_params max_u_submissions=1"}))
	h.wait(1)
	h.submits("alice", "-N a", "")
	h.submits("alice", "-N a", "job rejected: only 1 jobs are allowed per user and 1 second (max_u_submissions): try again in 1 second, at 22:00:02")
	h.change(small)
	for range 5 {
		h.submits("alice", "-N a", "")
	}
}
