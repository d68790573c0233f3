package cell

import (
	"slices"
	"testing"
)

// TestComesBackAgainAndAgain counts the starts of a task that always asks to run again.
func TestComesBackAgainAndAgain(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a")
	h.sub("bob", "-N b")
	var at []int64
	for range 1800 {
		h.Schedule(h.now)
		if h.Job(1).Tasks()[0].Running() != nil {
			at = append(at, h.now-start)
			h.end(1, 1, End{Failure: NobodysFailure, Requeued: true, Reason: "exit status 99"})
		}
		h.wait(1)
	}
	// schedule_interval is 15 seconds.
	if want := []int64{0, 15, 45, 105, 225, 465, 765, 1065, 1365, 1665}; !slices.Equal(at, want) {
		t.Errorf("it was started at %v, want %v", at, want)
	}
	task := h.Job(1).Tasks()[0]
	runs, until, ok := task.Comeback(h.now)
	if !ok || runs != 10 || until != start+1965 {
		t.Errorf("%d runs, until %d, %v", runs, until-start, ok)
	}
	if next, ok := h.NextEvent(h.now); !ok || next != until {
		t.Errorf("the next event is at %d, %v, want %d", next-start, ok, until-start)
	}

	// The delays continue after a restart of the daemon.
	h.now = until
	h.run()
	h.end(1, 1, End{ExitStatus: 99})
	if _, until, ok := h.Job(1).Tasks()[0].Comeback(h.now); !ok || until != h.now+300 {
		t.Errorf("until %d, %v", until-h.now, ok)
	}

	// After a long run the next delay is short again.
	h.now += 300
	h.run()
	h.wait(60)
	h.end(1, 1, End{ExitStatus: 99})
	if runs, until, ok := h.Job(1).Tasks()[0].Comeback(h.now); !ok || runs != 1 || until != h.now+15 {
		t.Errorf("%d runs, until %d, %v", runs, until-h.now, ok)
	}
}

// TestComesBackUnasked checks that a task whose supervisor was killed runs again at once, the first
// time.
func TestComesBackUnasked(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -r y")
	var at []int64
	for range 60 {
		h.Schedule(h.now)
		if h.Job(1).Tasks()[0].Running() != nil {
			at = append(at, h.now-start)
			h.end(1, 1, End{Failure: NobodysFailure, Reason: "killed"})
		}
		h.wait(1)
	}
	if want := []int64{0, 1, 16, 46}; !slices.Equal(at, want) {
		t.Errorf("it was started at %v, want %v", at, want)
	}
}
