package cell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// TestTextsOfQalter checks the output of qalter for each option (observed on 8.1.9).
func TestTextsOfQalter(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N first -h")
	h.sub("alice", "-N a -l lic=1 -soft -l osn=lx -q all.q")
	h.sub("alice", "-N arr -t 1-5 -h")
	h.sub("alice", "-N other -t 1-5:2 -h")
	for _, c := range []struct{ line, want string }{
		{"-soft -l osn=hp a", "modified soft resource list of job 2"},
		{"-l lic=2 -soft -l osn=ux a", "modified hard resource list of job 2\nmodified soft resource list of job 2"},
		{"-soft -q all.q@n1 a", "modified soft queue list of job 2"},
		{"-q nosuch.q a", `Job was rejected because job requests unknown queue "nosuch.q"`},
		{"-masterq all.q a", "modified master hard queue list of job 2"},
		{"-pe nosuch 2 a", `denied: parallel environment "nosuch" does not exist`},
		{"-P nosuch a", `job rejected: the requested project "nosuch" does not exist`},
		{"-hold_jid first,99,arr a", "modified job id hold list of job 2\n   blocking jobs: 1,3\n   exited jobs:   99"},
		{"-hold_jid nosuch a", "modified job id hold list of job 2\n   blocking jobs: NONE\n   exited jobs:   NONE"},
		{"-hold_jid_ad arr a", `Can only specify "-hold_jid_ad" option with an array job (using "-t" option)`},
		{"-hold_jid_ad other arr", "modified job id hold array list of job 3\n   blocking jobs: 4\n   exited jobs:   NONE"},
		{"-hold_jid_ad arr other", "job 4 dependency change would generate a dependency cycle with job 3"},
		{"-R y a", "modified reservation behaviour of job 2"},
		{"-tc 2 arr", "modified task concurrency of job 3"},
		{"-r y a", "modified restart behaviour of job 2"},
		{"-M a@b -m be a", "modified mail options of job 2\nmodified mail list of job 2"},
		{"-o /tmp/x -e /tmp/y -j y a", "modified stderr path list of job 2\nmodified output merge behaviour of job 2\nmodified stdout path list of job 2"},
		{"-A acct a", "modified account of job 2"},
		{"-ac a=b a", "modified context of job 2"},
		{"-v A=1 a", "modified environment of job 2"},
		{"-S /bin/sh a", "modified shell list of job 2"},
		{"-notify a", "modified notify behaviour of job 2"},
		{"-wd /tmp a", "modified working directory of job 2"},
		{"-i /tmp/x a", "modified stdin path list of job 2"},
		{"-c n a", "modified checkpoint attributes of job 2"},
		{"-binding linear:1 a", "modified binding of job 2"},
		{"-ckpt nosuch a", `denied: checkpointing environment "nosuch" does not exist`},
		{"-ckpt ck a", "modified checkpointing environment of job 2"},
		{"-ar 9 a", "the advance reservation id 9 is invalid"},
		{"-dl 203011210000 a", "modified deadline initiation of job 2"},
		{"-p -9 -js 7 -u alice", "alice@master sets scheduling priority of job 1 to -9\nalice@master sets job share of job 1 to 7\n" +
			"alice@master sets scheduling priority of job 2 to -9\nalice@master sets job share of job 2 to 7\n" +
			"alice@master sets scheduling priority of job 3 to -9\nalice@master sets job share of job 3 to 7\n" +
			"alice@master sets scheduling priority of job 4 to -9\nalice@master sets job share of job 4 to 7"},
		{"-w v first", "verification: job is already running or is held"},
		{"-w v a", "verification: no suitable queues"},
		{"-ckpt ck -w n a", "modified checkpointing environment of job 2"},
	} {
		got := h.alter("alice", c.line).text()
		if c.line == "-w v a" {
			got = got[max(0, len(got)-len(c.want)):] // after the reasons
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.line, got, c.want)
		}
	}
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "all"), nil, submit.HoldChange{Set: submit.HoldUser}), `denied: job "all" does not exist`)
	r := h.Job(2).Request()
	if got := fmt.Sprint(r.Resources, r.Queues); got != "[lic=2 osn=ux] [{all.q@n1 true} {all.q true}]" && got != "[lic=2 osn=ux] [{all.q@n1 true}]" {
		t.Error(got)
	}
	// A running task continues to use the resources that it was granted.
	h.sub("alice", "-N run -l lic=1 -q all.q@n2")
	h.run()
	for _, c := range []struct{ line, want string }{
		{"-l lic=2 run", `denied: can't change consumable resource request "lic" of running job`},
		{"-l osn=x run", `denied: former resource request on consumable "lic" of running job missing in new resource request`},
		{"-l lic=1,osn=x run", "modified hard resource list of job 5"},
		{"-pe fill 2 run", "modified parallel environment of job 5\nmodified slot range of job 5"},
	} {
		h.said(h.alter("alice", c.line), c.want)
	}
	h.end(5, 1, End{})
	h.Delete(h.now, caller("root"), DeleteRequest{Users: []string{"*"}})
	h.idle()
}

// TestOrderOfEqualJobs checks which of several jobs with the same shares gets the most tickets: the
// one that was changed first, if the functional policy is not in the hierarchy.
func TestOrderOfEqualJobs(t *testing.T) {
	h := newHarness(t, small.with(files{
		"users/alice": "name alice\nfshare 100",
		"sched_conf":  small["sched_conf"] + "\nweight_ticket 1\nweight_tickets_functional 10000\nweight_user 1\nshare_functional_shares TRUE\nmax_functional_jobs_to_schedule 200\nmax_pending_tasks_per_job 1\npolicy_hierarchy S",
	}))
	order := func(want string) {
		t.Helper()
		d := h.run().Decisions
		var waiting []*Job
		for _, j := range h.Jobs() {
			if !j.sched.Tasks.IsEmpty() {
				waiting = append(waiting, j)
			}
		}
		functional := func(j *Job) float64 {
			_, x := d.Of(&j.sched)
			return x.Functional
		}
		slices.SortStableFunc(waiting, func(a, b *Job) int { return cmp.Compare(functional(b), functional(a)) })
		var got []string
		for _, j := range waiting {
			got = append(got, itoa(int(j.ID())))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	h.ModifyQueues(h.now, caller("admin"), DisableQueue, []string{"*"}, false)
	for range 3 {
		h.sub("alice", "-q all.q@n1")
		h.wait(2)
	}
	order("1 2 3")
	h.alter("alice", "-p -1 1")
	order("2 3 1")
	h.sub("alice", "-t 1-3 -q all.q@n2")
	order("2 3 1 4")
	h.Hold(h.now, caller("alice"), jobs(h, "2"), nil, submit.HoldChange{Set: submit.HoldUser})
	order("3 1 4")
	h.Hold(h.now, caller("alice"), jobs(h, "2"), nil, submit.HoldChange{Clear: submit.HoldUser})
	order("3 1 4 2")
	h.sub("alice", "-q all.q@n1 -hold_jid 3")
	h.sub("alice", "-q all.q@n1")
	order("3 1 4 2 6")
	h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "3")})
	order("1 4 2 6 5")
	h.ModifyQueues(h.now, caller("admin"), EnableQueue, []string{"all.q@n2"}, false)
	h.run()
	order("1 2 6 5 4") // two of its tasks run
}
