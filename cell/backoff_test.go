package cell

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		pauses pauses
		want   []int64 // after the first event, the second, and so on
	}{
		"after refusals":                      {refusalPauses(), []int64{0, 2, 4, 8, 16, 32, 60, 60}},
		"from the first time on":              {pauses{first: 15, longest: 300}, []int64{15, 30, 60, 120, 240, 300, 300}},
		"two times free":                      {pauses{free: 2, first: 1, longest: 3}, []int64{0, 0, 1, 2, 3, 3}},
		"the longest is the first":            {pauses{first: 600, longest: 600}, []int64{600, 600}},
		"the longest is shorter than a first": {pauses{first: 600, longest: 300}, []int64{300, 300}},
	} {
		var got []int64
		for n := range c.want {
			got = append(got, c.pauses.after(n+1))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		// Counts that are damaged on the disk, or become very large.
		if got := c.pauses.after(-3); got != 0 {
			t.Errorf("%s: a pause of %d seconds after -3 times", name, got)
		}
		if got := c.pauses.after(math.MaxInt); got != c.pauses.longest {
			t.Errorf("%s: a pause of %d seconds after very many times, want %d", name, got, c.pauses.longest)
		}
	}
}

// TestBackoffRecords checks that records of earlier versions, which are spelled out here, still
// delay tasks, and that the cell writes the same records again.
func TestBackoffRecords(t *testing.T) {
	cluster := small.cluster(t)
	h := newHarnessOf(t, cluster)
	h.sub("alice", "-N a -q all.q@n1")
	h.sub("bob", "-N b -q all.q@n2")
	for range 3 {
		h.Schedule(h.now) // without reports that the tasks have begun
		h.end(1, 1, End{Failure: Refused, Reason: "no room"})
		h.end(2, 1, End{ExitStatus: 99})
		if h.now < start+60 {
			h.wait(30)
		}
	}
	// The first pause of job 2 was 15 seconds, the second 30, the third is 60.
	store := kept{}
	store.take(h.Cell)
	want := map[string]string{
		"task/0000000001/0000000001": fmt.Sprintf(`{"v":1,"restarts":3,"refusals":3,"priority":0.75,"normalized":0.5,"reported":true,"refused":{"count":3,"until":%d,"host":"n1","reason":"no room"}}`, start+64),
		"task/0000000002/0000000001": fmt.Sprintf(`{"v":1,"restarts":3,"priority":0.75,"normalized":0.5,"reported":true,"back":{"count":3,"until":%d}}`, start+120),
	}
	tasks := func(k kept) map[string]string {
		return map[string]string{"task/0000000001/0000000001": k["task/0000000001/0000000001"], "task/0000000002/0000000001": k["task/0000000002/0000000001"]}
	}
	if diff := cmp.Diff(want, tasks(store)); diff != "" {
		t.Errorf("- an earlier version wrote, + is written:\n%s", diff)
	}
	maps.Copy(store, want)

	next := store.restored(t, h.now, cluster)
	next.report()
	host, reason, again, ok := next.Job(1).Tasks()[0].Refusal()
	if !ok || host != "n1" || reason != "no room" || again != start+64 {
		t.Errorf("job 1: refused by %q: %q until %d, %v", host, reason, again-start, ok)
	}
	if runs, until, ok := next.Job(2).Tasks()[0].Comeback(next.now); !ok || runs != 3 || until != start+120 {
		t.Errorf("job 2: %d runs, until %d, %v", runs, until-start, ok)
	}
	for _, want := range []int64{64, 120} { // each is delayed until its own time, and the scheduler knows it
		if at, ok := next.NextEvent(next.now); !ok || at != start+want {
			t.Fatalf("the next event is at %d, %v, want %d", at-start, ok, want)
		}
		next.now = start + want - 1
		before := next.show()
		next.run()
		next.expect(before)
		next.now++
		next.run()
	}
	next.expect("1 r all.q@n1; 2 Rr all.q@n2")

	// If the clock was set back, no task is delayed longer than the longest pause.
	next = store.restored(t, start-1000, cluster)
	if _, _, again, _ := next.Job(1).Tasks()[0].Refusal(); again != start-1000+60 {
		t.Errorf("job 1 waits until %d, want %d", again-start, -1000+60)
	}
	if _, until, _ := next.Job(2).Tasks()[0].Comeback(next.now); until != start-1000+300 {
		t.Errorf("job 2 waits until %d, want %d", until-start, -1000+300)
	}
	unchanged := kept{}
	next = store.restored(t, h.now, cluster)
	next.touchAll()
	unchanged.take(next.Cell)
	if diff := cmp.Diff(want, tasks(unchanged)); diff != "" {
		t.Errorf("- was restored, + is written again:\n%s", diff)
	}
}
