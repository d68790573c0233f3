package cell

import (
	"testing"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

func TestJobsComeAndGo(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -l lic=2")
	h.sub("bob", "-N b -l lic=2")
	r := h.run()
	h.expect("1 r all.q@n2; 2 qw")
	if len(r.Actions) != 1 || r.Actions[0].Kind != StartTask {
		t.Fatalf("%+v", r.Actions)
	}
	h.wait(60)
	h.end(1, 1, End{})
	h.expect("2 qw")
	h.run()
	h.expect("2 r all.q@n2")
	h.end(2, 1, End{})
	h.expect("")
	h.idle()
}

// idle checks that no resources are booked.
func (h *harness) idle() {
	h.t.Helper()
	for i := range h.model.Instances() {
		id := scheduler.InstanceID(i)
		if n := h.state.UsedSlots(id); n != 0 {
			h.t.Errorf("%s: %d slots are in use", h.model.InstanceName(id), n)
		}
		if n := len(h.instances[i].tasks); n != 0 {
			h.t.Errorf("%s has %d tasks", h.model.InstanceName(id), n)
		}
	}
	if n := len(h.state.Running()) + h.state.Pending() + len(h.dependencies.jobs) + len(h.dependencies.tasks) + len(h.perUser) + len(h.named); n != 0 {
		h.t.Errorf("something is left: %d running, %d pending, %v, %v, %v", len(h.state.Running()), h.state.Pending(), h.dependencies, h.perUser, h.named)
	}
}

func TestHolds(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-h -N a")
	h.sub("alice", "-t 1-6 -N arr")
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "arr -t 2-3"), nil, submit.HoldChange{Set: submit.HoldUser}), "modified hold of job-array task 2.2\nmodified hold of job-array task 2.3")
	h.expect("1 hqw; 2.1,4-6 qw; 2.2,3 hqw")
	h.run()
	h.expect("1 hqw; 2.1 r all.q@n1; 2.4 r all.q@n1; 2.5 r all.q@n2; 2.6 r all.q@n2; 2.2,3 hqw")
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "1"), nil, submit.HoldChange{Set: submit.HoldSystem}), `denied: "alice" must be manager to set manager hold`)
	h.said(h.Hold(h.now, caller("admin"), jobs(h, "1"), nil, submit.HoldChange{Set: submit.HoldSystem | submit.HoldOperator}), "modified hold of job 1")
	h.said(h.alter("alice", "-h n 1"), `denied: "alice" must be manager to remove manager hold`)
	h.said(h.alter("alice", "-h U 1"), "modified hold of job 1")
	h.expect("1 hqw; 2.1 r all.q@n1; 2.4 r all.q@n1; 2.5 r all.q@n2; 2.6 r all.q@n2; 2.2,3 hqw")
	h.said(h.alter("alice", "-h n 1"), `denied: "alice" must be manager to remove manager hold`)
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "1"), nil, submit.HoldChange{Set: submit.HoldUser}), "modified hold of job 1")
	before := h.Job(1).sched.Changed
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "1"), nil, submit.HoldChange{Set: submit.HoldSystem}), `denied: "alice" must be manager to set manager hold`)
	if h.Job(1).sched.Changed != before {
		t.Error("a refusal changes the place of a job among those with the same tickets")
	}
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "1"), nil, submit.HoldChange{Set: submit.HoldUser}), "")
	if h.Job(1).sched.Changed <= before {
		t.Error("a hold that is there already leaves the place of a job among those with the same tickets")
	}
	h.said(h.alter("admin", "-h n 1"), "modified hold of job 1")
	h.said(h.Hold(h.now, caller("alice"), jobs(h, "2"), nil, submit.HoldChange{Clear: submit.HoldUser}), "modified hold of job-array task 2.2\nmodified hold of job-array task 2.3")
	for _, n := range []uint32{1, 4, 5, 6} {
		h.end(2, n, End{})
	}
	h.run()
	h.expect("1 r all.q@n1; 2.2 r all.q@n1; 2.3 r all.q@n2")
}

func TestDependencies(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N first")
	h.sub("alice", "-N second -hold_jid first")
	h.sub("bob", "-N other -hold_jid first") // not bob's job: the predecessor counts as finished
	h.sub("alice", "-N third -hold_jid f*,second,99")
	h.expect("1 qw; 2 hqw; 3 qw; 4 hqw")
	h.run()
	h.expect("1 r all.q@n1; 2 hqw; 3 r all.q@n1; 4 hqw")
	h.said(h.alter("alice", "-hold_jid 4 second"), "job 2 dependency change would generate a dependency cycle with job 4")
	h.said(h.alter("alice", "-hold_jid 2 second"), `denied: job "2" may not be its own jobnet predecessor`)
	h.end(1, 1, End{})
	h.run() // the instance that was changed last comes last
	h.expect("2 r all.q@n2; 3 r all.q@n1; 4 hqw")
	h.said(h.alter("alice", "-hold_jid '' third"), "modified job id hold list of job 4\n   blocking jobs: NONE\n   exited jobs:   NONE")
	h.expect("2 r all.q@n2; 3 r all.q@n1; 4 qw")
	h.end(2, 1, End{ExitStatus: 100})
	h.expect("2 Eqw; 3 r all.q@n1; 4 qw")
}

// TestArrayDependencies checks dependencies between tasks of array jobs, with equal and different
// steps.
func TestArrayDependencies(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -t 1-6 -tc 2")
	h.sub("alice", "-N b -t 1-6 -hold_jid_ad a")
	h.sub("alice", "-N c -t 1-6:2 -hold_jid_ad a")
	h.sub("alice", "-N d -t 1-6:1 -hold_jid_ad c")
	free := func(id uint32) string { return h.Job(id).sched.Tasks.String() }
	expect := func(b, c, d string) {
		t.Helper()
		if free(2) != b || free(3) != c || free(4) != d {
			t.Errorf("free are %q, %q and %q, want %q, %q and %q", free(2), free(3), free(4), b, c, d)
		}
	}
	expect("", "", "")
	h.run()
	h.end(1, 2, End{})
	expect("2", "", "")
	h.expect("1.1 r all.q@n1; 1.3-6 qw; 2.2 qw; 2.1,3-6 hqw; 3.1-5:2 hqw; 4.1-6 hqw")
	h.end(1, 1, End{})
	expect("1,2", "1", "")
	h.run()
	expect("", "1", "")
	h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "1")}), "alice has registered the job-array task 1.3 for deletion\nalice has registered the job-array task 1.4 for deletion\nalice has deleted job 1")
	h.end(1, 3, End{})
	h.end(1, 4, End{})
	if h.Job(1) != nil {
		t.Fatal("the first is still there")
	}
	expect("3-6", "1-5:2", "")
	h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "3 -t 3")}), "alice has deleted job-array task 3.3")
	h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "3 -t 3")}), `job "3" task "3" does not exist`)
	expect("3-6", "1,5", "3,4")
}

func TestStartTimes(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-a 202611202230 -N later")
	h.sub("alice", "-a 202611202100 -N past")
	h.run()
	h.expect("1 qw; 2 r all.q@n1")
	if at, ok := h.NextEvent(h.now); !ok || at != start+1800 {
		t.Errorf("next at %d, %v", at-start, ok)
	}
	h.wait(1799)
	h.run()
	h.expect("1 qw; 2 r all.q@n1")
	h.wait(1)
	h.run()
	h.expect("1 r all.q@n2; 2 r all.q@n1")
	if at, ok := h.NextEvent(h.now); !ok || at != start+86400 { // the automatic user expires
		t.Errorf("something at %d", at-start)
	}
}

// TestLargeArray checks that an array of a million tasks needs no memory for tasks that have not
// started.
func TestLargeArray(t *testing.T) {
	h := newHarness(t, small.with(files{"conf/global": "max_aj_tasks 0"}))
	h.sub("alice", "-t 1-1000000 -N big")
	h.sub("alice", "-t 1-1000000 -N next -hold_jid_ad big")
	h.run()
	h.expect("1.1 r all.q@n1; 1.2 r all.q@n1; 1.3 r all.q@n2; 1.4 r all.q@n2; 1.5-1000000 qw; 2.1-1000000 hqw")
	h.end(1, 1, End{})
	if got := h.Job(2).sched.Tasks.String(); got != "1" {
		t.Errorf("free are %q", got)
	}
	h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Users: []string{"alice"}, Force: true}),
		"alice has registered the job-array task 1.2 for deletion\nalice has registered the job-array task 1.3 for deletion\n"+
			"alice has registered the job-array task 1.4 for deletion\nalice has deleted job 1\nalice has deleted job 2")
	h.said(h.Delete(h.now, caller("admin"), DeleteRequest{Users: []string{"alice"}, Force: true}),
		"admin forced the deletion of job-array task 1.2\nadmin forced the deletion of job-array task 1.3\nadmin forced the deletion of job-array task 1.4")
	h.expect("")
	h.idle()
}

func TestDeletion(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a")
	h.sub("bob", "-N b")
	h.run()
	h.sub("bob", "-N c -h")
	del := func(user, refs string) *Answer {
		return h.Delete(h.now, caller(user), DeleteRequest{Jobs: jobs(h, refs)})
	}
	h.said(del("root", "a c 77"), "The job a of user(s) root does not exist\nThe job c of user(s) root does not exist\ndenied: job \"77\" does not exist")
	h.said(del("bob", "1"), `bob - you do not have the necessary privileges to delete the job "1"`)
	h.said(del("bob", "3,b"), "bob has deleted job 3\nbob has registered the job 2 for deletion")
	h.expect("1 r all.q@n1; 2 dr all.q@n1")
	h.said(del("bob", "2"), "job 2 is already in deletion")
	h.said(h.Delete(h.now, caller("root"), DeleteRequest{Jobs: jobs(h, "a 2"), Users: []string{"bob"}}), "The job a of user(s) bob does not exist\njob 2 is already in deletion")
	h.said(h.Delete(h.now, caller("root"), DeleteRequest{Users: []string{"dave"}}), "There is no job registered for the following users: dave")
	h.said(h.Delete(h.now, caller("bob"), DeleteRequest{Users: []string{"*"}}), `denied: "bob" must be manager to modify all jobs`)
	if by := h.Job(2).Task(1).DeletedBy; by != "bob@master" {
		t.Errorf("job 2 was deleted by %q", by)
	}
	h.end(2, 1, End{ExitStatus: 99}) // a deleted task is not run again
	h.expect("1 r all.q@n1")
	a := h.Delete(h.now, caller("root"), DeleteRequest{Jobs: jobs(h, "1"), Force: true})
	h.said(a, "root forced the deletion of job 1")
	if len(a.Actions) != 1 || a.Actions[0].Kind != KillTask {
		t.Errorf("%+v", a.Actions)
	}
	h.expect("")
	h.idle()
}

// TestNamesAreNoExpressions checks that a name in qdel is a pattern in which the operators of
// expressions are ordinary characters, so that no command deletes more jobs than intended (tested on
// 8.1.9).
func TestNamesAreNoExpressions(t *testing.T) {
	for _, reference := range []string{"!ae", "ae|zz", "!a*", "(a*)", "a*&*e", "!bb"} {
		h := newHarness(t, small)
		for _, name := range []string{"ae", "ab", "zz"} {
			h.sub("alice", "-h -N "+name)
		}
		before := h.show()
		for _, r := range []DeleteRequest{{Jobs: jobs(h, reference)}, {Jobs: jobs(h, reference), Users: []string{"a*"}}, {Users: []string{reference}}} {
			if a := h.Delete(h.now, caller("alice"), r); len(a.Events) != 1 || !a.Events[0].Denied {
				t.Errorf("%s: %s", reference, a.text())
			}
		}
		h.expect(before)
	}
	h := newHarness(t, small)
	names := []string{"a&b", "a|c", "(x)", "x<y>&z", "!ae", "a[b"}
	for i, name := range names {
		h.sub("alice", "-h -N "+name)
		h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, name)}), "alice has deleted job "+itoa(i+1))
	}
}

// TestUnbegunTasks checks that if a prolog failed and the job itself was not started, its next start
// is the first one. The reason of the failure remains visible, even while the job runs.
func TestUnbegunTasks(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N first")
	h.run()
	h.end(1, 1, End{Failure: QueueFailure, Unbegun: true, Reason: "exit_status of prolog = 1"})
	h.expect("1 qw")
	h.run()
	h.expect("1 r all.q@n2")
	if task := h.Job(1).tasks[0]; task.Again() || task.Message != "exit_status of prolog = 1" || task.Error != "" {
		t.Errorf("%+v", task)
	}
}

func TestEndsOfTasks(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N again")
	h.run()
	h.end(1, 1, End{ExitStatus: 99})
	h.expect("1 Rq")
	h.wait(15)
	h.run()
	h.expect("1 Rr all.q@n2")
	h.end(1, 1, End{ExitStatus: 100})
	h.expect("1 ERq")
	h.run()
	h.said(h.ModifyJobs(h.now, caller("bob"), ClearJobError, jobs(h, "1"), false), `bob - you have no permission to modify job "1"`)
	h.said(h.ModifyJobs(h.now, caller("alice"), ClearJobError, jobs(h, "1"), false), `alice@master cleared error state of job 1`)
	h.said(h.ModifyJobs(h.now, caller("alice"), ClearJobError, jobs(h, "1"), false), "Job 1 is not in error state")
	h.run()
	h.expect("1 Rr all.q@n1")
	h.end(1, 1, End{Failure: QueueFailure})
	h.expect("1 Rq")
	h.run()
	h.expect("1 Rr all.q@n2")
	id, _ := h.model.Instance("all.q", "n1")
	if h.state.Status(id) != scheduler.Failed || len(h.ErrorsOf(id)) != 1 {
		t.Errorf("status %b, %q", h.state.Status(id), h.ErrorsOf(id))
	}
	h.end(1, 1, End{Failure: HostFailure})
	h.run()
	h.expect("1 Rq")
	h.said(h.ModifyQueues(h.now, caller("root"), ClearQueueError, []string{"*"}, false),
		"root@master changed state of \"all.q@n1\" (no error)\nroot@master changed state of \"all.q@n2\" (no error)\nQueue instance \"int.q@n1\" is already in the specified state: no error")
	h.run()
	h.end(1, 1, End{Failure: NobodysFailure})
	h.expect("1 Rq")
	h.wait(15)
	h.run()
	h.expect("1 Rr all.q@n2")
	h.sub("alice", "-N b -q all.q@n1")
	h.run()
	h.end(2, 1, End{Failure: Refused})
	h.expect("1 Rr all.q@n2; 2 qw")
	h.run()
	h.expect("1 Rr all.q@n2; 2 r all.q@n1")
	h.end(2, 1, End{Failure: NobodysFailure})
	h.expect("1 Rr all.q@n2; 2 Rq")
	h.end(1, 1, End{Failure: JobFailure, Reason: "can't open output file"})
	h.expect("1 ERq; 2 Rq")
	if h.Job(1).Tasks()[0].Error != "can't open output file" {
		t.Error(h.Job(1).Tasks()[0].Error)
	}
}

func TestQueueStates(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -q all.q@n1")
	h.run()
	mod := func(user string, op QueueOperation, refs ...string) *Answer {
		return h.ModifyQueues(h.now, caller(user), op, refs, false)
	}
	h.said(mod("alice", DisableQueue, "all.q"), "alice - you have no permission to modify queue \"all.q@n1\"\nalice - you have no permission to modify queue \"all.q@n2\"")
	h.said(mod("olga", DisableQueue, "all.q@n2"), `olga@master changed state of "all.q@n2" (disabled)`)
	h.said(mod("olga", RescheduleQueue, "all.q@n2"), `olga - you have no permission to reschedule jobs of queue instance "all.q@n2"`)
	h.said(mod("olga", DisableQueue, "int.q"), `olga - you have no permission to modify queue "int.q@n1"`)
	h.said(mod("root", DisableQueue, "all.q", "x.q"), "root@master changed state of \"all.q@n1\" (disabled)\nQueue instance \"all.q@n2\" is already in the specified state: disabled\ninvalid queue \"x.q\"")
	h.sub("alice", "-N b")
	h.run()
	h.expect("1 r all.q@n1; 2 qw")
	h.said(mod("oper", EnableQueue, "*@n2"), `oper@master changed state of "all.q@n2" (enabled)`)
	h.run()
	h.expect("1 r all.q@n1; 2 r all.q@n2")
	a := mod("root", SuspendQueue, "all.q@n2")
	h.expect("1 r all.q@n1; 2 S all.q@n2")
	if len(a.Actions) != 1 || a.Actions[0].Kind != SuspendTask {
		t.Errorf("%+v", a.Actions)
	}
	h.said(h.ModifyJobs(h.now, caller("alice"), SuspendJob, jobs(h, "2"), false), "alice - suspended job 2")
	if a := mod("root", UnsuspendQueue, "all.q@n2"); len(a.Actions) != 0 {
		t.Errorf("resumed although the user has suspended it: %+v", a.Actions)
	}
	h.expect("1 r all.q@n1; 2 s all.q@n2")
	a = h.ModifyJobs(h.now, caller("alice"), UnsuspendJob, jobs(h, "2"), false)
	h.said(a, "alice - unsuspended job 2")
	if len(a.Actions) != 1 || a.Actions[0].Kind != ResumeTask {
		t.Errorf("%+v", a.Actions)
	}
	h.expect("1 r all.q@n1; 2 r all.q@n2")
}

func TestRescheduling(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -r y -q all.q@n1")
	h.sub("alice", "-N b")
	h.run()
	h.expect("1 r all.q@n1; 2 r all.q@n1")
	resched := func(user, refs string, force bool) *Answer {
		return h.ModifyJobs(h.now, caller(user), RescheduleJob, jobs(h, refs), force)
	}
	h.said(resched("bob", "1", true), `bob - you have no permission to modify job "1"`)
	h.said(resched("admin", "99", false), `invalid queue or job "99"`)
	h.said(resched("admin", "2", false), "The job 2 is running in queue none where jobs are not rerunable.")
	h.said(h.ModifyJobs(h.now, caller("admin"), ClearJobError, jobs(h, "2"), false), "Job 2 is not in error state")
	a := resched("admin", "1", false)
	h.said(a, "Pushed rescheduling of job 1 on host n1")
	if len(a.Actions) != 1 || a.Actions[0].Kind != RescheduleTask || a.Actions[0].Attempt != 0 {
		t.Errorf("%+v", a.Actions)
	}
	h.run()
	h.expect("1 Rq; 2 r all.q@n1") // n1 is not clean
	if _, err := h.TaskEnded(h.now, 1, 1, 0, End{}); err != nil {
		t.Fatal(err)
	}
	h.run()
	h.expect("1 Rr all.q@n1; 2 r all.q@n1")
	h.said(h.ModifyQueues(h.now, caller("root"), RescheduleQueue, []string{"all.q@n1"}, true),
		"Forced rescheduling of job 1 on host n1\nForced rescheduling of job 2 on host n1")
	h.expect("1 Rq; 2 Rq")
	h.run()
	h.expect("1 Rq; 2 Rr all.q@n2")
}

// TestRescheduledJobsWaitAnew checks that rescheduled jobs move behind all pending jobs, unless the
// reschedule was not requested by anyone.
func TestRescheduledJobsWaitAnew(t *testing.T) {
	byHand := func(h *harness) {
		h.said(h.ModifyJobs(h.now, caller("admin"), RescheduleJob, jobs(h, "1"), true), "Forced rescheduling of "+h.Job(1).tasks[0].label()+" on host n1")
	}
	ended := func(e End) func(h *harness) {
		return func(h *harness) {
			if _, err := h.TaskEnded(h.now, 1, 1, 0, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		options, params string
		event           func(*harness)
		anew            bool
	}{
		"qmod -rj":                    {"-q all.q@n1", "none", byHand, true},
		"the old behaviour":           {"-q all.q@n1", "OLD_RESCHEDULE_BEHAVIOR=1", byHand, false},
		"the old behaviour of arrays": {"-q all.q@n1", "OLD_RESCHEDULE_BEHAVIOR_ARRAY_JOB=1", byHand, true},
		"an array":                    {"-t 1-2 -tc 1 -q all.q@n1", "OLD_RESCHEDULE_BEHAVIOR=1", byHand, true},
		"an array, as it was":         {"-t 1-2 -tc 1 -q all.q@n1", "OLD_RESCHEDULE_BEHAVIOR_ARRAY_JOB=1", byHand, false},
		"exit status 99":              {"", "none", ended(End{ExitStatus: 99}), true},
		"its prolog's":                {"", "none", ended(End{Failure: NobodysFailure, Requeued: true}), true},
		"it migrates":                 {"", "none", ended(End{Failure: NobodysFailure}), false},
		"its queue has failed":        {"", "none", ended(End{Failure: QueueFailure}), false},
	} {
		h := newHarness(t, small.with(files{"conf/global": "qmaster_params " + c.params}))
		at := h.now
		h.sub("alice", c.options)
		h.run()
		h.wait(100)
		c.event(h)
		if c.anew {
			at = h.now
		}
		if got := h.Job(1).Submitted(); got != at {
			t.Errorf("%s: submitted %d s later than expected", name, got-at)
		}
		h.HostClean(h.now, "n1")
		h.wait(15)
		h.run()
		if got := h.Job(1).tasks[0]; got.run == nil {
			t.Errorf("%s: %s does not run again", name, got.label())
		}
	}
}

func TestLostHosts(t *testing.T) {
	h := newHarness(t, small.with(files{"conf/global": "reschedule_unknown 0:10:0"}))
	h.sub("alice", "-r y -N a")
	h.sub("alice", "-r n -N b")
	h.run()
	h.expect("1 r all.q@n1; 2 r all.q@n1")
	if _, err := h.HostLost(h.now, "n1"); err != nil {
		t.Fatal(err)
	}
	if at, ok := h.NextEvent(h.now); !ok || at != h.now+600 {
		t.Errorf("next %d %v", at-h.now, ok)
	}
	h.wait(600)
	h.run()
	h.expect("1 Rr all.q@n2; 2 r all.q@n1")
	h.HostClean(h.now, "n1")
	if _, err := h.HostReport(h.now, "n9", nil); err == nil {
		t.Error("a host that is not there has reported")
	}
}

func TestAlteration(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-N a -h -l lic=1 -q all.q@n2")
	h.sub("alice", "-N other -h")
	for _, c := range []struct{ user, line, want string }{
		{"root", "-p 1023 a", "root@master sets scheduling priority of job 1 to 1023"},
		{"root", "-p 1024 1", "root@master sets scheduling priority of job 1 to 1024"},
		{"alice", "-p 1024 1", "alice@master sets scheduling priority of job 1 to 1024"},
		{"alice", "-p -5 a", "alice@master sets scheduling priority of job 1 to -5"},
		{"alice", "-p 0 a", `denied: "alice" must be operator to increase job priority`},
		{"alice", "-ot 5 1", `denied: "alice" must be operator to change amount of override tickets`},
		{"oper", "-ot 25 1", "oper@master sets override tickets of job 1 to 25"},
		{"bob", "-js 5 1", `denied: "bob" must be at least owner of job 1 to change job attributes`},
		{"bob", "-js 5 a", `denied: "bob" must be at least owner of job 1 to change job attributes`},
		{"root", "-js 5 nosuch", `denied: job "nosuch" does not exist`},
		{"root", "-js 5 -u carol", "The job * of user(s) carol does not exist"},
		{"alice", "-js 5 1", "alice@master sets job share of job 1 to 5"},
		{"alice", "-l nosuch=1 1", `unknown resource "nosuch"`},
		{"alice", "-l h_rt=5 -q all.q 1", "modified hard resource list of job 1\nmodified hard queue list of job 1"},
		{"alice", "-pe fill 2 2", "modified parallel environment of job 2\nmodified slot range of job 2"},
		{"alice", "-P secret 1", `job rejected: no access to project "secret" for user "alice"`},
		{"alice", "-P p1 -N b 1", "modified job name of job 1\nmodified project of job 1"},
		{"alice", "-a 202611210000 -u alice", "modified start time of job 1\nmodified start time of job 2"},
		{"alice", "-p -9 -l nosuch=1 1", `unknown resource "nosuch"`}, // all or nothing
		{"alice", "-h U b", "modified hold of job 1"},
	} {
		h.said(h.alter(c.user, c.line), c.want)
	}
	j := h.Job(1)
	if j.Priority() != -5 || j.OverrideTickets() != 25 || j.Shares() != 5 || j.Project != "p1" || j.Name() != "b" {
		t.Errorf("%+v", j)
	}
	h.run()
	h.expect("1 qw; 2 hqw")
	h.wait(7200)
	h.run()
	h.expect("1 r all.q@n1; 2 hqw")
	h.said(h.alter("alice", "-l lic=1 1"), `denied: resource request on consumable "lic" of running job was not contained in former resource request`)
	h.said(h.alter("alice", "-P p2 -N c 1"), "modified job name of job 1\nmodified project of job 1\njob 1 can't modify running jobs")
	if j.Project != "p1" || j.Name() != "b" {
		t.Errorf("%+v", j)
	}
	// Other changes apply when the job is started again.
	h.said(h.alter("alice", "-l h_rt=9 -q *@n2 1"), "modified hard resource list of job 1\nmodified hard queue list of job 1")
	h.expect("1 r all.q@n1; 2 hqw")
	h.change(small)
	h.expect("1 r all.q@n1; 2 hqw")
	h.end(1, 1, End{ExitStatus: 99})
	h.wait(15)
	h.run()
	h.expect("1 Rr all.q@n2; 2 hqw")
	h.end(1, 1, End{})
	h.said(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "o*")}), "alice has deleted job 2")
	h.idle()
}
