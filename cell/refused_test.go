package cell

import (
	"slices"
	"testing"
)

// TestRefusedAgain counts the starts of a task that its host always refuses.
func TestRefusedAgain(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -q all.q@n1")
	var at []int64
	for range 600 {
		h.Schedule(h.now)
		if h.Job(1).Tasks()[0].Running() != nil {
			at = append(at, h.now-start)
			h.end(1, 1, End{Failure: Refused, Reason: "job 1 exists from another start"})
		}
		h.wait(1)
	}
	// The second attempt follows at once, later ones at growing intervals up to a minute.
	if want := []int64{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543}; !slices.Equal(at, want) {
		t.Errorf("it was started at %v, want %v", at, want)
	}
	task := h.Job(1).Tasks()[0]
	host, reason, again, ok := task.Refusal()
	if !ok || host != "n1" || reason != "job 1 exists from another start" || again <= h.now {
		t.Errorf("refused by %q: %q until %d, %v", host, reason, again, ok)
	}
	if e, there := h.Job(1).LastEnding(); there || h.Job(1).ran {
		t.Errorf("the job has never begun: %+v", e)
	}
	if next, ok := h.NextEvent(h.now); !ok || next > again {
		t.Errorf("the next event is at %d, %v, want %d", next, ok, again)
	}

	// Another task of the same user is not affected, and after an accepted start there is no delay.
	h.sub("alice", "-N b -q all.q@n1")
	h.run()
	h.expect("1 qw; 2 r all.q@n1")
	h.now = again
	h.run()
	h.expect("1 r all.q@n1; 2 r all.q@n1")
	if _, _, _, ok := task.Refusal(); ok {
		t.Error("a task that runs is shown as refused")
	}
	h.end(1, 1, End{Failure: NobodysFailure})
	h.run()
	h.expect("1 Rr all.q@n1; 2 r all.q@n1")
}
