package cell

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler/tickets"
)

// TestReportsThatCannotBe checks that impossible reports are refused, and change nothing.
func TestReportsThatCannotBe(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-t 1-3 -r y -q *@n1")
	h.sub("bob", "-h")
	h.Schedule(h.now)
	want := "1.1 t all.q@n1; 1.2 t all.q@n1; 1.3 qw; 2 hqw"
	h.expect(want)
	for name, report := range map[string]func() error{
		"start of a job that is not there":  func() error { return h.TaskStarted(h.now, 9, 1, 0) },
		"start of a task that waits":        func() error { return h.TaskStarted(h.now, 1, 3, 0) },
		"start of a task that is not there": func() error { return h.TaskStarted(h.now, 1, 7, 0) },
		"another start":                     func() error { return h.TaskStarted(h.now, 1, 1, 1) },
		"end of a job that is not there":    func() error { _, err := h.TaskEnded(h.now, 9, 1, 0, End{}); return err },
		"end of a task that waits":          func() error { _, err := h.TaskEnded(h.now, 1, 3, 0, End{}); return err },
		"usage of a task that waits":        func() error { return h.UsageReport(h.now, 1, 3, tickets.Amounts{}) },
		"usage of a job that is not there":  func() error { return h.UsageReport(h.now, 9, 1, tickets.Amounts{}) },
		"load of a host that is not there":  func() error { _, err := h.HostReport(h.now, "n9", nil); return err },
		"loss of a host that is not there":  func() error { _, err := h.HostLost(h.now, "n9"); return err },
		"loss of the cluster":               func() error { _, err := h.HostLost(h.now, "global"); return err },
	} {
		if report() == nil {
			t.Errorf("%s is believed", name)
		}
		h.expect(want)
	}
	// The end of an earlier start does not end the present one.
	h.ModifyJobs(h.now, caller("alice"), RescheduleJob, jobs(h, "1.1"), false)
	h.HostClean(h.now, "n1")
	h.run()
	if _, err := h.TaskEnded(h.now, 1, 1, 0, End{}); err != nil {
		t.Error(err)
	}
	if got := h.show(); !strings.HasPrefix(got, "1.1 Rr all.q@n1;") {
		t.Error(got)
	}
}

// TestLoadThatCannotBeRead checks that load values that do not match their type count as not reported.
func TestLoadThatCannotBeRead(t *testing.T) {
	h := newHarness(t, small.with(files{"queues/all.q": "qname all.q\nhostlist n1 n2\nslots 2\nload_thresholds users=5"}))
	for host, users := range map[string]string{"n1": "many", "n2": "1"} {
		if _, err := h.HostReport(h.now, host, map[string]string{"users": users, "unknown": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	h.sub("alice", "-q all.q")
	h.run()
	h.expect("1 r all.q@n2")
	id, _ := h.model.Host("n1")
	if problems := h.state.Problems(id); len(problems) != 1 || !strings.Contains(problems[0].Error(), "many") {
		t.Errorf("%v", problems)
	}
}

// TestResourcesInUseStay checks that running tasks use a resource that a change of the configuration
// removes.
func TestResourcesInUseStay(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-l lic=1")
	h.run()
	h.sub("alice", "-l lic=1 -h -N waits")
	without := small.with(files{
		"complexes": strings.Replace(small["complexes"], "lic lic INT <= YES YES 0 0\n", "", 1),
		"hosts/n2":  "hostname n2",
	})
	if _, err := h.Reconfigure(h.now, without.cluster(t)); err == nil || !strings.Contains(err.Error(), `unknown resource "lic"`) {
		t.Errorf("%v", err)
	}
	h.expect("1 r all.q@n2; 2 hqw")
	h.end(1, 1, End{})
	h.change(without)
	if h.Job(2).Problem != `unknown resource "lic"` {
		t.Error(h.Job(2).Problem)
	}
	h.alter("alice", "-h U 2")
	h.run()
	h.expect("2 qw")
	h.said(h.alter("alice", "-l h_rt=5 2"), "modified hard resource list of job 2")
	h.run()
	h.expect("2 r all.q@n1")
}
