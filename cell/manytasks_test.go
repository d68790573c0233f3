package cell

import (
	"runtime"
	"testing"

	"github.com/execd-project/execd/submit"
)

// TestManySingleTasks checks that the work for every second task of an array grows with the number of tasks, and
// not with its square. Lists of tasks are immutable, so a list that grows by one number after the other shows in
// the bytes that were allocated.
func TestManySingleTasks(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-t 1-20000")
	const most = 64 << 20
	hold := func(change submit.HoldChange) {
		h.Hold(h.now, caller("alice"), jobs(h, "1.1-20000:2"), nil, change)
	}
	for _, step := range []struct {
		name string
		do   func()
		can  int // start afterwards
	}{
		{"hold", func() { hold(submit.HoldChange{Set: submit.HoldUser}) }, 10_000},
		{"release", func() { hold(submit.HoldChange{Clear: submit.HoldUser}) }, 20_000},
		{"list", func() { h.WaitingTasks(h.jobs[1]) }, 20_000},
		{"delete", func() { h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "1.2-20000:2")}) }, 10_000},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		step.do()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s: %d bytes were allocated, expected at most %d", step.name, n, most)
		}
		if n := h.startable(h.jobs[1]).Len(); n != step.can {
			t.Errorf("%s: %d tasks can start, expected %d", step.name, n, step.can)
		}
	}
}
