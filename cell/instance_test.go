package cell

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// levels has a host with queues that suspend each other.
var levels = small.with(files{
	"queues/all.q":  "",
	"queues/int.q":  "",
	"queues/high.q": "qname high.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\nsubordinate_list low.q=1 mid.q",
	"queues/mid.q":  "qname mid.q\nhostlist n1\nslots 4\nload_thresholds NONE",
	"queues/low.q":  "qname low.q\nhostlist n1\nslots 4\nload_thresholds NONE\nsubordinate_list idle.q=1",
	"queues/idle.q": "qname idle.q\nhostlist n1\nslots 4\nload_thresholds NONE",
})

func TestQueueWiseSubordination(t *testing.T) {
	h := newHarness(t, levels)
	h.sub("alice", "-q low.q")
	h.run()
	h.sub("alice", "-q mid.q")
	h.sub("alice", "-q idle.q") // suspended by low.q
	h.run()
	h.expect("1 r low.q@n1; 2 r mid.q@n1; 3 qw")
	h.sub("alice", "-q high.q@n1")
	r := h.run()
	h.expect("1 S low.q@n1; 2 r mid.q@n1; 3 qw; 4 r high.q@n1")
	if len(r.Actions) != 2 || r.Actions[1].Kind != SuspendTask || r.Actions[1].Task.Job.ID() != 1 {
		t.Errorf("%+v", r.Actions)
	}
	h.sub("alice", "-q high.q@n1")
	h.sub("bob", "-q low.q")
	h.run()
	h.expect("1 S low.q@n1; 2 S mid.q@n1; 3 qw; 4 r high.q@n1; 5 r high.q@n1; 6 qw")
	a := h.end(4, 1, End{})
	h.expect("1 S low.q@n1; 2 r mid.q@n1; 3 qw; 5 r high.q@n1; 6 qw")
	if len(a.Actions) != 1 || a.Actions[0].Kind != ResumeTask {
		t.Errorf("%+v", a.Actions)
	}
	h.end(5, 1, End{})
	h.run()
	h.expect("1 r low.q@n1; 2 r mid.q@n1; 3 qw; 6 r low.q@n1")
	h.end(1, 1, End{})
	h.end(6, 1, End{})
	h.run()
	h.expect("2 r mid.q@n1; 3 r idle.q@n1")
	h.end(2, 1, End{})
	h.end(3, 1, End{})
	h.idle()
}

// tree has a host with slot-wise subordination.
var tree = small.with(files{
	"queues/all.q": "",
	"queues/int.q": "",
	"queues/sup.q": "qname sup.q\nhostlist n1\nslots 4\nload_thresholds NONE\nsubordinate_list slots=4(s1.q:1:sr s2.q:2:lr)",
	"queues/s1.q":  "qname s1.q\nhostlist n1\nslots 4\nload_thresholds NONE",
	"queues/s2.q":  "qname s2.q\nhostlist n1\nslots 4\nload_thresholds NONE",
})

func TestSlotWiseSubordination(t *testing.T) {
	h := newHarness(t, tree)
	for _, q := range []string{"s1.q", "s1.q", "s2.q", "s2.q"} {
		h.sub("alice", "-q "+q)
		h.run()
		h.wait(10)
	}
	h.expect("1 r s1.q@n1; 2 r s1.q@n1; 3 r s2.q@n1; 4 r s2.q@n1")
	h.sub("bob", "-q sup.q")
	h.run()
	h.expect("1 r s1.q@n1; 2 r s1.q@n1; 3 S s2.q@n1; 4 r s2.q@n1; 5 r sup.q@n1")
	h.wait(10)
	h.sub("bob", "-q sup.q")
	h.sub("bob", "-q sup.q")
	h.run()
	h.expect("1 r s1.q@n1; 2 S s1.q@n1; 3 S s2.q@n1; 4 S s2.q@n1; 5 r sup.q@n1; 6 r sup.q@n1; 7 r sup.q@n1")
	// A job that starts above the threshold is suspended at once.
	h.wait(10)
	h.sub("bob", "-q s2.q")
	h.run()
	h.expect("1 r s1.q@n1; 2 S s1.q@n1; 3 S s2.q@n1; 4 S s2.q@n1; 5 r sup.q@n1; 6 r sup.q@n1; 7 r sup.q@n1; 8 S s2.q@n1")
	h.end(5, 1, End{})
	h.expect("1 r s1.q@n1; 2 r s1.q@n1; 3 S s2.q@n1; 4 S s2.q@n1; 6 r sup.q@n1; 7 r sup.q@n1; 8 S s2.q@n1")
	h.end(6, 1, End{})
	h.expect("1 r s1.q@n1; 2 r s1.q@n1; 3 S s2.q@n1; 4 S s2.q@n1; 7 r sup.q@n1; 8 r s2.q@n1")
	for _, id := range []uint32{1, 2, 3, 4, 7, 8} {
		h.end(id, 1, End{})
	}
	h.idle()
}

func TestSuspendThresholds(t *testing.T) {
	h := newHarness(t, small.with(files{
		"queues/all.q": "qname all.q\nhostlist n1\nslots 5\nload_thresholds NONE\nsuspend_thresholds users=5\nnsuspend 2\nsuspend_interval 0:0:5",
		"queues/int.q": "",
	}))
	load := func(users string) {
		if _, err := h.HostReport(h.now, "n1", map[string]string{"users": users}); err != nil {
			t.Fatal(err)
		}
	}
	load("4")
	for range 5 {
		h.sub("alice", "")
	}
	h.run()
	states := func(want string) {
		t.Helper()
		h.run()
		got := ""
		for _, j := range h.Jobs() {
			got += j.Tasks()[0].State()
		}
		if got != want {
			t.Errorf("after %d s: got %s, want %s", h.now-start, got, want)
		}
	}
	load("7")
	states("TTrrr")
	if at, ok := h.NextEvent(h.now); !ok || at != h.now+5 {
		t.Errorf("next event in %d, %v", at-h.now, ok)
	}
	h.wait(4)
	states("TTrrr")
	h.wait(1)
	states("TTTTr")
	h.wait(5)
	states("TTTTT")
	load("4")
	h.wait(4)
	states("TTTTT")
	h.wait(1)
	states("rrTTT")
	h.wait(5)
	states("rrrrT")
	h.wait(5)
	states("rrrrr")
}

// TestUrgencyOfSuspendedTask checks the urgency that a suspended task keeps: its urgency in the
// scale of the last run before the suspension.
func TestUrgencyOfSuspendedTask(t *testing.T) {
	h := newHarness(t, small.with(files{"sched_conf": "weight_waiting_time 1\n"}))
	for _, pause := range []int64{5, 15, 0} {
		h.sub("alice", "")
		h.run()
		h.wait(pause)
	}
	urgencies := func(want string) {
		t.Helper()
		d := h.run().Decisions
		var got []string
		for _, j := range h.Jobs() {
			p, _ := d.OfRunning(j.Tasks()[0].Running())
			got = append(got, fmt.Sprintf("%.2f%s", p.NormalizedUrgency, j.Tasks()[0].State()))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	h.run()
	urgencies("1.00r 0.75r 0.00r")
	h.ModifyJobs(h.now, caller("alice"), SuspendJob, jobs(h, "2"), false)
	urgencies("1.00r 0.75s 0.00r")
	h.end(3, 1, End{})
	urgencies("0.50r 0.75s")
}

func TestCalendars(t *testing.T) {
	h := newHarness(t, small.with(files{
		"queues/all.q":   "qname all.q\nhostlist n1\nslots 5\nload_thresholds NONE\ncalendar night",
		"queues/int.q":   "qname int.q\nhostlist n1\nslots 5\nload_thresholds NONE\ncalendar noon",
		"calendars/noon": "calendar_name noon\nyear NONE\nweek mon-sun=22:10-22:20=suspended",
	}))
	all, _ := h.model.Instance("all.q", "n1")
	in, _ := h.model.Instance("int.q", "n1")
	h.sub("alice", "-q all.q")
	h.sub("alice", "-q int.q")
	h.run()
	for _, c := range []struct {
		at       int64
		jobs     string
		all, int scheduler.Status
	}{
		{600, "1 r all.q@n1; 2 S int.q@n1", 0, scheduler.SuspendedByCalendar},
		{1201, "1 r all.q@n1; 2 r int.q@n1", 0, 0},
		{1800, "1 r all.q@n1; 2 r int.q@n1", scheduler.DisabledByCalendar, 0},
		{3601, "1 r all.q@n1; 2 r int.q@n1", 0, 0},
	} {
		at, ok := h.NextEvent(h.now)
		if !ok || at != start+c.at {
			t.Errorf("next event after %d, %v, want %d", at-start, ok, c.at)
		}
		h.now = start + c.at
		h.run()
		h.expect(c.jobs)
		if h.state.Status(all) != c.all || h.state.Status(in) != c.int {
			t.Errorf("after %d: %b, %b", c.at, h.state.Status(all), h.state.Status(in))
		}
	}
}

func TestInitialStates(t *testing.T) {
	h := newHarness(t, small.with(files{
		"queues/all.q": "qname all.q\nhostlist n1 n2\ninitial_state disabled\nload_thresholds NONE",
		"queues/int.q": "qname int.q\nhostlist n1 n2\ninitial_state enabled\nload_thresholds NONE",
	}))
	all, _ := h.model.Instance("all.q", "n1")
	in, _ := h.model.Instance("int.q", "n1")
	expect := func(a, i scheduler.Status) {
		t.Helper()
		if h.state.Status(all) != a || h.state.Status(in) != i {
			t.Errorf("%b, %b, want %b, %b", h.state.Status(all), h.state.Status(in), a, i)
		}
	}
	expect(scheduler.DisabledByUser, 0)
	h.ModifyQueues(h.now, caller("root"), EnableQueue, []string{"all.q"}, false)
	h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"int.q"}, false)
	h.report() // not the first report
	expect(0, scheduler.DisabledByUser)
	if _, err := h.HostLost(h.now, "n1"); err != nil {
		t.Fatal(err)
	}
	expect(scheduler.Unknown, scheduler.Unknown|scheduler.DisabledByUser)
	h.report()
	expect(scheduler.DisabledByUser, 0)
}
