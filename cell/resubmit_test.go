package cell

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// resubmit runs qresub with a value of -h, if there is one, and jobs.
func (h *harness) resubmit(user, holds, jobs string) *Answer {
	h.t.Helper()
	var change submit.HoldChange
	var err error
	if holds != "" {
		if change, err = submit.ParseHolds(holds); err != nil {
			h.t.Fatal(err)
		}
	}
	ranges, err := submit.ParseJobRanges(strings.Fields(jobs))
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Resubmit(h.now, caller(user), ranges, change, nil)
}

// TestResubmit checks the answers of qresub (observed on Grid Engine 8.1.9).
func TestResubmit(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-h -N src -p -3 -l h_rt=100")
	h.sub("alice", "-h -N arr -t 1-7:2 -tc 2")
	h.sub("alice", "-N dep -hold_jid src -hold_jid_ad arr -t 1-7:2")
	h.said(h.resubmit("alice", "", "1"), `Your job 4 ("src") has been submitted`)
	h.said(h.resubmit("alice", "", "2 3"), "Your job-array 5.1-7:2 (\"dep\") has been submitted\nYour job-array 6.1-7:2 (\"arr\") has been submitted")
	if c := h.Job(4); c.Holds != 0 || c.Priority() != -3 || c.Owner() != "alice" || len(c.Request().Resources) != 1 {
		t.Errorf("%+v", c)
	}
	if p := h.Job(5).Predecessors(); len(p) != 2 || p[0] != 1 || p[1] != 4 {
		t.Errorf("names mean the jobs that are there now: %v", p)
	}
	if h.Job(1).Holds != submit.HoldUser || !h.Job(1).Request().Hold {
		t.Error("the job that was copied has changed")
	}
	if a := h.Job(6); a.Waiting.Len() != 4 || a.Request().TaskLimit != 2 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct{ user, holds, jobs, want string }{
		{"alice", "", "src", `job "0" does not exist`},
		{"alice", "", "999", `job "999" does not exist`},
		{"alice", "u", "1", "modified hold of job 1\nYour job 7 (\"src\") has been submitted"},
		{"alice", "o", "1", `denied: "alice" must be operator to set operator hold`}, // 8
		{"alice", "s", "1", `denied: "alice" must be manager to set manager hold`},   // 9
		{"alice", "n", "1", `Your job 10 ("src") has been submitted`},
		{"alice", "U", "1", `Your job 11 ("src") has been submitted`},
		{"alice", "", "2.1", "denied: the selected option works only on jobs and not on tasks"},
		{"bob", "", "1", "job rejected: bob@master is not allowed to resubmit jobs of user alice"},
		{"oper", "", "1", "job rejected: oper@master is not allowed to resubmit jobs of user alice"},
		{"root", "os", "1", "modified hold of job 1\nYour job 12 (\"src\") has been submitted"},
		{"alice", "u", "2", "modified hold of job-array task 2.1\nmodified hold of job-array task 2.3\nmodified hold of job-array task 2.5\n" +
			"modified hold of job-array task 2.7\nYour job-array 13.1-7:2 (\"arr\") has been submitted"},
		{"alice", "", "1 1", "Your job 14 (\"src\") has been submitted\nYour job 15 (\"src\") has been submitted"},
	} {
		a := h.resubmit(c.user, c.holds, c.jobs)
		h.said(a, c.want)
		if refused := !strings.Contains(c.want, "has been submitted"); a.Denied() != refused {
			t.Errorf("%s qresub %s: denied %v", c.user, c.jobs, a.Denied())
		}
	}
	h.said(h.resubmit("alice", "", "1 2 3"), "Your job-array 16.1-7:2 (\"dep\") has been submitted\nYour job 17 (\"src\") has been submitted\n"+
		"Your job-array 18.1-7:2 (\"arr\") has been submitted")
	h.said(h.resubmit("alice", "", "999 1 998 2"), "Your job-array 19.1-7:2 (\"arr\") has been submitted\njob \"999\" does not exist\njob \"998\" does not exist")
	h.said(h.resubmit("alice", "", "1"), `Your job 21 ("src") has been submitted`) // 20 was refused
	if j := h.Job(12); j.Owner() != "root" || j.Holds != submit.HoldOperator|submit.HoldSystem {
		t.Errorf("%+v", j)
	}
}

// TestVersions checks that each command that changes a job counts as one alteration, for any number of
// tasks. A command that only changes the job's rank does not count.
func TestVersions(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-t 1-3")
	ranges, err := submit.ParseJobRanges([]string{"1"})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		what string
		do   func()
		want int
	}{
		{"a hold", func() { h.Hold(h.now, caller("alice"), ranges, nil, submit.HoldChange{Set: submit.HoldUser}) }, 1},
		{"the same hold", func() { h.Hold(h.now, caller("alice"), ranges, nil, submit.HoldChange{Set: submit.HoldUser}) }, 1},
		{"a release", func() { h.Hold(h.now, caller("alice"), ranges, nil, submit.HoldChange{Clear: submit.HoldUser}) }, 2},
		{"a priority", func() { h.alter("alice", "-p -3 1") }, 2},
		{"a share", func() { h.alter("alice", "-js 3 1") }, 2},
		{"tickets", func() { h.alter("root", "-ot 3 1") }, 3},
		{"two at once", func() { h.alter("alice", "-N x -m a 1") }, 4},
		{"what is refused", func() { h.alter("bob", "-N y 1") }, 4},
	} {
		c.do()
		if got := h.Job(1).Version; got != c.want {
			t.Errorf("step %d: %s: version %d, not %d", i, c.what, got, c.want)
		}
	}
}

func TestResubmitKeepsWhatWasAltered(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-a 202611202210 -dl 202611212200")
	h.alter("root", "-ot 7 1")
	h.alter("root", "-N other 1")
	h.alter("alice", "-js 9 1")
	h.wait(24 * 3600)
	h.resubmit("alice", "", "1")
	j, c := h.Job(1), h.Job(2)
	if c.OverrideTickets() != 7 || c.Shares() != 9 || c.Version != 2 || c.Start != j.Start || c.Deadline() != j.Deadline() || c.Submitted() != h.now {
		t.Errorf("%+v", c)
	}
	strict := small.with(files{"conf/global": "max_u_jobs 1"})
	h = newHarness(t, strict)
	h.sub("alice", "")
	h.said(h.resubmit("alice", "", "1"), "job rejected: only 1 jobs are allowed per user (current job count: 1)")
	h.resubmit("alice", "", "1")
	if len(h.Jobs()) != 1 || h.lastJob != 3 {
		t.Errorf("%d jobs, the last number is %d", len(h.Jobs()), h.lastJob)
	}
}
