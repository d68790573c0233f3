package cell

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

func (h *harness) change(f files) {
	h.t.Helper()
	if _, err := h.Reconfigure(h.now, f.cluster(h.t)); err != nil {
		h.t.Fatal(err)
	}
}

func TestConfigurationChanges(t *testing.T) {
	h := newHarness(t, levels)
	h.sub("alice", "-N a -q low.q")
	h.sub("alice", "-N b -q high.q -l lic=1")
	h.run()
	h.sub("alice", "-N c -q mid.q")
	h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"mid.q"}, false)
	want := "1 S low.q@n1; 2 r high.q@n1; 3 qw"
	if got := h.show(); strings.Contains(got, "high.q@n2") {
		want = "1 r low.q@n1; 2 r high.q@n2; 3 qw"
	}
	h.expect(want)
	h.change(levels)
	h.expect(want)
	h.run()
	h.expect(want)
	// mid.q is removed, and returns with the state of a new queue.
	gone := levels.with(files{"queues/mid.q": ""})
	gone["queues/high.q"] = strings.Replace(gone["queues/high.q"], " mid.q", "", 1)
	h.change(gone)
	h.expect(want)
	if j := h.Job(3); j.Problem != `Job was rejected because job requests unknown queue "mid.q"` {
		t.Errorf("problem %q", j.Problem)
	}
	h.run()
	h.expect(want)
	h.change(levels)
	h.run()
	h.expect(want[:len(want)-2] + "r mid.q@n1")
	for _, id := range []uint32{1, 2, 3} {
		h.end(id, 1, End{})
	}
	h.idle()
}

func TestOrphans(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -q int.q -now y")
	h.run()
	h.sub("alice", "-N next -hold_jid a")
	h.change(small.with(files{"queues/int.q": "qname int.q\nhostlist n2\nslots 1\nload_thresholds NONE"}))
	h.expect("1 r int.q@n1; 2 hqw")
	id, ok := h.model.Instance("int.q", "n1")
	if !ok || h.state.Status(id) != scheduler.Orphaned || h.state.UsedSlots(id) != 1 {
		t.Fatalf("the instance is not orphaned: %v", ok)
	}
	h.sub("bob", "-q int.q@n1 -now y")
	h.change(small.with(files{"queues/int.q": ""})) // the queue stays as an orphan
	h.expect("1 r int.q@n1; 2 hqw; 3 qw")
	h.run()
	h.end(1, 1, End{})
	h.run()
	if got := h.show(); !strings.HasPrefix(got, "2 r ") {
		t.Error(got)
	}
	if _, ok := h.model.Instance("int.q", "n1"); ok {
		t.Error("the orphan is still there")
	}
	h.end(2, 1, End{})
	h.idle()
}

// TestQueuesThatRunningJobsDoNotNeed checks that a running job continues if another queue that its
// request names is removed.
func TestQueuesThatRunningJobsDoNotNeed(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-soft -q int.q")
	h.run()
	h.change(small.with(files{"queues/int.q": ""}))
	h.expect("1 r all.q@n1")
	h.end(1, 1, End{})
	h.idle()
}

func TestWhatRunsKeepsItsConfiguration(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-pe fill 2")
	h.run()
	before := h.show()
	cluster := small.with(files{"pes/fill": "", "queues/all.q": strings.Replace(small["queues/all.q"], "fill ", "", 1)}).cluster(t)
	if _, err := h.Reconfigure(h.now, cluster); err == nil {
		t.Error("the environment of a running job is gone")
	}
	h.expect(before)
	h.end(1, 1, End{})
	h.idle()
	if _, err := h.Reconfigure(h.now, cluster); err != nil {
		t.Error(err)
	}
}

func TestReservationsSurviveAChange(t *testing.T) {
	h := newHarness(t, small)
	if _, err := h.reserve("alice", "-d 600 -pe fill 4"); err != nil {
		t.Fatal(err)
	}
	h.sub("alice", "-ar 1 -pe fill 2")
	h.run()
	h.sub("bob", "")
	before := h.show()
	h.change(small)
	h.run()
	h.expect(before)
	h.end(1, 1, End{})
	h.wait(600)
	h.run()
	if got := h.show(); !strings.HasPrefix(got, "2 r all.q@n") {
		t.Error(got)
	}
}

func TestIntervalsSurviveAChange(t *testing.T) {
	f := small.with(files{"queues/all.q": "qname all.q\nhostlist n1\nslots 5\nload_thresholds NONE\nsuspend_thresholds users=5\nsuspend_interval 0:1:0"})
	h := newHarness(t, f)
	report := func(users string) {
		if _, err := h.HostReport(h.now, "n1", map[string]string{"users": users}); err != nil {
			t.Fatal(err)
		}
	}
	report("1")
	h.sub("alice", "")
	h.sub("alice", "")
	h.run()
	report("9")
	h.run()
	h.expect("1 T all.q@n1; 2 r all.q@n1")
	h.change(f)
	h.wait(30)
	h.run()
	h.expect("1 T all.q@n1; 2 r all.q@n1")
	h.wait(30)
	h.run()
	h.expect("1 T all.q@n1; 2 T all.q@n1")
}

// TestClosingTimesArePlannedFor checks that a job is not started in a queue whose calendar closes it
// before the job's end.
func TestClosingTimesArePlannedFor(t *testing.T) {
	h := newHarness(t, small.with(files{
		"queues/all.q": "qname all.q\nhostlist n1\nslots 5\nload_thresholds NONE\ncalendar night",
		"sched_conf":   small["sched_conf"] + "\nmax_reservation 5\ndefault_duration 0:1:0",
	}))
	h.sub("alice", "-l h_rt=1500")
	h.sub("alice", "-l h_rt=1900")
	h.run()
	h.expect("1 r all.q@n1; 2 qw")
	h.now = start + 3601 // open again
	h.run()
	h.expect("1 r all.q@n1; 2 r all.q@n1")
}

func TestSlotsAreBalancedWhenQueuesAreSuspended(t *testing.T) {
	h := newHarness(t, tree)
	for _, q := range []string{"sup.q", "sup.q", "sup.q", "s1.q", "s1.q"} {
		h.sub("alice", "-q "+q)
		h.run()
		h.wait(1)
	}
	h.expect("1 r sup.q@n1; 2 r sup.q@n1; 3 r sup.q@n1; 4 r s1.q@n1; 5 S s1.q@n1")
	a := h.ModifyQueues(h.now, caller("root"), SuspendQueue, []string{"sup.q"}, false)
	h.expect("1 S sup.q@n1; 2 S sup.q@n1; 3 S sup.q@n1; 4 r s1.q@n1; 5 r s1.q@n1")
	if len(a.Actions) != 4 {
		t.Errorf("%d actions", len(a.Actions))
	}
	id, _ := h.model.Instance("sup.q", "n1")
	if h.state.Status(id) != scheduler.SuspendedByUser {
		t.Errorf("%b", h.state.Status(id))
	}
}
