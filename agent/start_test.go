package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// TestInvalidStarts checks that invalid starts are refused with a reason, and leave nothing behind.
func TestInvalidStarts(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(s *Start)
		says   string
	}{
		"a number that there is not":        {func(s *Start) { s.ID.Job = 0 }, "invalid job ID 0.0"},
		"a task of a parallel job":          {func(s *Start) { s.ID.PETask = "1.node1" }, "StartTask"},
		"no command":                        {func(s *Start) { s.Request = nil }, "no command and no script"},
		"no owner":                          {func(s *Start) { s.Owner = "" }, "no owner"},
		"nothing granted":                   {func(s *Start) { s.Grants = nil }, "no queue instance"},
		"no slots granted":                  {func(s *Start) { s.Grants[0].Slots = 0 }, "granted 0 slots"},
		"a grant without a queue":           {func(s *Start) { s.Grants[0].Queue = "" }, "1 slots of @node1"},
		"a grant without a host":            {func(s *Start) { s.Grants[0].Host = "" }, "1 slots of all.q@"},
		"of another host":                   {func(s *Start) { s.Grants[0].Host = "node2" }, "no queue instance of this host"},
		"more slots without an environment": {func(s *Start) { s.Grants[0].Slots = 2 }, ""},
		"a key that is too long":            {func(s *Start) { s.Key = strings.Repeat("x", mostKey+1) }, "the key has 1025 bytes, at most 1024 are possible"},
		"a key of two lines":                {func(s *Start) { s.Key = "a\nb" }, "one line"},
		"interactive on another host":       {func(s *Start) { s.Interactive, s.Slave = &Interactive{}, true }, "another host"},
		"an interactive array": {func(s *Start) {
			s.Interactive, s.Request.Array = &Interactive{}, &submit.Array{}
		}, "array job"},
	} {
		s := w.job(1, "/bin/true")
		c.change(s)
		for what, err := range map[string]error{
			"Start": func() error { _, err := w.agent.Start(t.Context(), s); return err }(),
			"Admit": w.agent.Admit(t.Context(), s),
		} {
			if codeOf(err) != InvalidArgument || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s, %s: %v, expected ...%s...", what, name, err, c.says)
			}
		}
	}
	if jobs := w.agent.Jobs(); len(jobs) > 0 {
		t.Errorf("there are %+v", jobs)
	}
	if _, used := w.agent.table.book.Usage(); used > 0 {
		t.Errorf("%d slots are in use", used)
	}
}

// TestKeyOfAnotherJob checks that a key belongs to one job, also after the job was removed.
func TestKeyOfAnotherJob(t *testing.T) {
	w := newWorld(t)
	first, second := w.job(1, "/bin/sleep", "1000"), w.job(2, "/bin/true")
	first.Key, second.Key = "same", "same"
	w.mustStart(first)
	if _, err := w.agent.Start(t.Context(), second); codeOf(err) != AlreadyExists || !strings.Contains(err.Error(), `job 1 has the key "same"`) {
		t.Errorf("the key of a job that runs: %v", err)
	}
}

// TestGrantsSurviveRestart checks that granted slots and elements stay granted across a restart.
func TestGrantsSurviveRestart(t *testing.T) {
	one := func(o *Options) {
		c := load(t, map[string]string{"queues/all.q": "qname all.q\nhostlist node1\nslots 1\nshell /bin/sh\nload_thresholds NONE\n"})
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "one", nil }
	}
	w := newWorld(t, one)
	first, second := w.job(1, "/bin/sleep", "1000"), w.job(2, "/bin/true")
	w.mustStart(first)
	w.await(first.ID, Running)
	for _, when := range []string{"at first", "after a restart"} {
		for what, err := range map[string]error{
			"Start": func() error { _, err := w.agent.Start(t.Context(), second); return err }(),
			"Admit": w.agent.Admit(t.Context(), second),
		} {
			if codeOf(err) != FailedPrecondition {
				t.Errorf("%s, %s without a slot: %v", when, what, err)
			}
		}
		w.stop()
		w.start(one)
	}
	if h := w.agent.Health(); h.Used != 1 {
		t.Errorf("%d slots are in use", h.Used)
	}
	if err := w.agent.Signal(t.Context(), first.ID, Kill); err != nil {
		t.Fatal(err)
	}
	w.ended(first.ID)
	w.mustStart(second)
	w.ended(second.ID)
}

// TestAdmitOfADrainedHost checks that a host that takes no jobs gives all its reasons to every
// caller.
func TestAdmitOfADrainedHost(t *testing.T) {
	w := newWorld(t)
	for source, reason := range map[string]string{"a": "one", "b": "two"} {
		if err := w.agent.DrainFor(source, reason); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		err := w.agent.Admit(t.Context(), w.job(1, "/bin/true"))
		if codeOf(err) != Unavailable || !strings.Contains(err.Error(), "a: one; b: two") {
			t.Errorf("%v", err)
		}
		w.stop()
		w.start()
	}
}

// TestScriptOfAnArray checks that the tasks of an array job share one script, which is removed with
// the last of them.
func TestScriptOfAnArray(t *testing.T) {
	w := newWorld(t)
	task := func(n int, text string) *Start {
		s := w.job(4, "/bin/true")
		s.ID.Task = n
		s.Request.Binary, s.Request.Script, s.Request.Args = false, []byte(text), nil
		return s
	}
	const text = "#!/bin/sh\nexec sleep 1000\n"
	first, second := task(1, text), task(2, text)
	for _, s := range []*Start{first, second} {
		w.mustStart(s)
		w.await(s.ID, Running)
	}
	end := func(s *Start) {
		t.Helper()
		if err := w.agent.Signal(t.Context(), s.ID, Kill); err != nil {
			t.Fatal(err)
		}
		w.ended(s.ID)
		w.until("the task is gone", func() bool { _, there := w.agent.Job(s.ID); return !there })
	}
	end(first)
	if _, err := os.Stat(w.spool.ScriptPath(4)); err != nil {
		t.Errorf("the script of a task that runs: %v", err)
	}
	end(second)
	w.gone(second.ID)
}

// TestSignalOfAllTasks checks that an order for all tasks of an array job affects these tasks only.
func TestSignalOfAllTasks(t *testing.T) {
	w := newWorld(t, tight(t, "FALSE"))
	var all []job.ID
	for n := 1; n <= 2; n++ {
		s := w.parallel(5, 2, "/bin/sleep", "1000")
		s.ID.Task = n
		w.mustStart(s)
		w.await(s.ID, Running)
		all = append(all, s.ID)
	}
	other := w.mustStart(w.job(6, "/bin/sleep", "1000")).ID
	w.await(other, Running)
	task, err := w.agent.StartTask(t.Context(), &TaskStart{Job: all[0], Key: "a", Owner: w.owner.Username, Command: []string{"/bin/sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	w.await(task.ID, Running)
	if err := w.agent.Signal(t.Context(), job.ID{Job: 5, Task: -1}, SuspendThreshold); err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		w.await(id, Suspended)
	}
	w.await(task.ID, Suspended) // as its job
	if r, _ := w.agent.Job(task.ID); len(r.SuspendedBy) > 0 {
		t.Errorf("the task of a parallel job has got an order of its own: %q", r.SuspendedBy)
	}
	// A reason more and one less change nothing for it, nor does another agent.
	for _, o := range []Order{Suspend, ResumeThreshold} {
		if err := w.agent.Signal(t.Context(), all[0], o); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	w.start(tight(t, "FALSE"))
	for _, id := range []job.ID{all[0], all[1], task.ID} {
		w.await(id, Suspended)
	}
	if err := w.agent.Signal(t.Context(), all[0], Resume); err != nil {
		t.Fatal(err)
	}
	w.await(all[0], Running)
	w.await(task.ID, Running)
	if err := w.agent.Signal(t.Context(), all[0], SuspendQueue); err != nil {
		t.Fatal(err)
	}
	w.await(task.ID, Suspended)
	late, err := w.agent.StartTask(t.Context(), &TaskStart{Job: all[0], Key: "b", Owner: w.owner.Username, Command: []string{"/bin/sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	w.await(late.ID, Suspended)
	if r, _ := w.agent.Job(other); r.State != Running {
		t.Errorf("another job is %s", r.State)
	}
	if err := w.agent.SignalQueue(t.Context(), "all.q@node2", SuspendQueue); codeOf(err) != NotFound {
		t.Errorf("an order for a queue instance of another host: %v", err)
	}
	if err := w.agent.SignalQueue(t.Context(), "all.q", Terminate); codeOf(err) != InvalidArgument {
		t.Errorf("an order that queues do not have: %v", err)
	}
	if err := w.agent.Signal(t.Context(), other, "dance"); codeOf(err) != InvalidArgument {
		t.Errorf("an unknown order: %v", err)
	}
}

// TestTasksThatAreRefused checks which tasks of a parallel job are refused.
func TestTasksThatAreRefused(t *testing.T) {
	w := newWorld(t, params(t, ""))
	alone := w.job(1, "/bin/sleep", "1000")
	w.mustStart(alone)
	w.await(alone.ID, Running)
	if _, err := w.task(alone, "a", "/bin/true"); codeOf(err) != FailedPrecondition || !strings.Contains(err.Error(), "control_slaves") {
		t.Errorf("a task of a job that has no parallel environment: %v", err)
	}
	if _, err := w.task(w.job(9, "/bin/true"), "a", "/bin/true"); codeOf(err) != NotFound {
		t.Errorf("a task of a job that is not here: %v", err)
	}
	w.stop()
	w.start(tight(t, "TRUE"))
	both := w.parallel(2, 2, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	w.mustStart(both)
	w.await(both.ID, Running)
	for name, c := range map[string]struct {
		change func(s *TaskStart)
		code   Code
	}{
		"without a command": {func(s *TaskStart) { s.Command = nil }, InvalidArgument},
		"without a key":     {func(s *TaskStart) { s.Key = "" }, InvalidArgument},
		"of two lines":      {func(s *TaskStart) { s.Key = "a\nb" }, InvalidArgument},
		"of somebody else":  {func(s *TaskStart) { s.Owner = "root" }, PermissionDenied},
	} {
		s := &TaskStart{Job: both.ID, Key: "a", Owner: both.Owner, Command: []string{"/bin/true"}}
		c.change(s)
		if _, err := w.agent.StartTask(t.Context(), s); codeOf(err) != c.code {
			t.Errorf("a task %s: %v, expected %s", name, err, c.code)
		}
	}
	// The job itself is one of its two.
	first, err := w.task(both, "first", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.task(both, "second", "/bin/sleep", "1000"); codeOf(err) != ResourceExhausted {
		t.Errorf("a task more than there are slots: %v", err)
	}
	w.await(first.ID, Running)
	w.agent.table.mu.Lock()
	w.agent.table.jobs[both.ID].endBy = Terminate // it takes its time
	w.agent.table.mu.Unlock()
	if _, err := w.task(both, "third", "/bin/true"); codeOf(err) != FailedPrecondition || !strings.Contains(err.Error(), "being ended") {
		t.Errorf("a task of a job that ends: %v", err)
	}
	w.agent.table.mu.Lock()
	w.agent.table.jobs[both.ID].endBy = ""
	w.agent.table.mu.Unlock()
}

// TestFinished checks that the agent and its successors remember a limited number of keys of
// removed jobs, in a file of limited size. An incomplete last line is ignored.
func TestFinished(t *testing.T) {
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	open := func() *finished {
		t.Helper()
		f, err := openFinished(spool.Dir(), newDisk(spool.Dir().Path(), diskPatience, func() {}))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	key := func(n int) string { return fmt.Sprintf("key %d", n) }
	lines := func() int {
		b, err := spool.Dir().ReadFile(fileFinished)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	f := open()
	const all = 3*mostFinished + 5
	longest := 0
	for n := range all {
		if err := f.add(key(n)); err != nil {
			t.Fatal(err)
		}
		if n%mostFinished < 10 {
			longest = max(longest, lines())
		}
	}
	check := func(f *finished) {
		t.Helper()
		if f.has(key(all-mostFinished-1)) || !f.has(key(all-mostFinished)) || !f.has(key(all-1)) || len(f.keys) != mostFinished || len(f.order) != mostFinished {
			t.Errorf("%d, %d are remembered: %v, %v, %v", len(f.keys), len(f.order), f.has(key(all-mostFinished-1)), f.has(key(all-mostFinished)), f.has(key(all-1)))
		}
	}
	check(f)
	if longest > 2*mostFinished {
		t.Errorf("the file has had %d lines", longest)
	}
	f.close()
	b, err := spool.Dir().ReadFile(fileFinished)
	if err != nil {
		t.Fatal(err)
	}
	if err := spool.Dir().WriteFile(fileFinished, append(b, "key 1"...)); err != nil {
		t.Fatal(err)
	}
	f = open()
	check(f)
	if f.has("key 1") || lines() != mostFinished {
		t.Errorf("of a line without an end: %v, %d lines", f.has("key 1"), lines())
	}
	if err := f.add(key(0)); err != nil || !slices.Contains(f.order, key(0)) {
		t.Errorf("%v", err)
	}
	f.close()
	if f = open(); !f.has(key(0)) || f.has(key(all-mostFinished)) {
		t.Error("the next agent does not know the last one, or one too many")
	}
	f.close()
}

// TestRecord checks the record of a start, which follows from the start and the configuration.
func TestRecord(t *testing.T) {
	c := load(t, map[string]string{
		"queues/all.q":   "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\nrerun TRUE\npe_list mpi\n",
		"queues/other.q": "qname other.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\nrerun FALSE\npe_list mpi\n",
		"pes/mpi":        "pe_name mpi\nslots 100\nallocation_rule $round_robin\ncontrol_slaves TRUE\njob_is_first_task FALSE\n",
	})
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "1", nil }
	})
	record := func(change func(s *Start), words ...string) Record {
		t.Helper()
		s := w.job(1, words...)
		change(s)
		w.agent.table.mu.Lock()
		defer w.agent.table.mu.Unlock()
		r, err := w.agent.recordOf(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	in := func(queue string) func(*Start) { return func(s *Start) { s.Grants[0].Queue = queue } }
	for name, c := range map[string]struct {
		change func(s *Start)
		words  []string
		want   bool
	}{
		"as the queue says":        {in("all.q"), nil, true},
		"as another queue says":    {in("other.q"), nil, false},
		"-r y":                     {in("other.q"), []string{"-r", "y"}, true},
		"-r n":                     {in("all.q"), []string{"-r", "n"}, false},
		"an interactive job never": {func(s *Start) { s.Interactive = &Interactive{} }, []string{"-r", "y"}, false},
	} {
		if r := record(c.change, append(c.words, "/bin/true")...); r.Rerunnable != c.want {
			t.Errorf("%s: it may be run again: %v", name, r.Rerunnable)
		}
	}
	r := record(func(s *Start) {
		s.PE, s.Tickets, s.Epoch, s.Reservation = "mpi", 7, 3, 5
		s.Grants = []Grant{{Queue: "all.q", Host: host, Slots: 2}, {Queue: "other.q", Host: host, Slots: 1}, {Queue: "all.q", Host: "node2", Slots: 4}}
	}, "-pe", "mpi", "7", "-p", "-5", "/bin/true")
	if r.Slots != 3 || r.Queue != "all.q" || !r.Control || r.MasterIsTask || r.PE != "mpi" || r.Tickets != 7 || r.Epoch != 3 || r.Reservation != 5 || r.Priority != -5 || len(r.Grants) != 3 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]jobdir.KeepActive{"true": jobdir.KeepAll, "error": jobdir.KeepFailed, "false": jobdir.KeepNone} {
		c = load(t, map[string]string{
			"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\n", "conf/global": "execd_params KEEP_ACTIVE=" + text + "\n",
		})
		if err := w.agent.Configure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := record(in("all.q"), "/bin/true"); r.Keep != want {
			t.Errorf("KEEP_ACTIVE=%s: %v", text, r.Keep)
		}
	}
}

// TestOutcomeNamesOrderThatEndedJob checks that the outcome of a job names the order that ended it,
// which only the agent knows.
func TestOutcomeNamesOrderThatEndedJob(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		by         Order
		rerunnable bool
		failed     job.Failed
		effect     job.Effect // before
		want       job.Failed
		wantEffect job.Effect
	}{
		"a good end":                               {"", false, 0, job.Finished, 0, job.Finished},
		"it was rescheduled":                       {Reschedule, false, job.FailedAfterJob, job.Finished, job.FailedReschedule, job.Restarts},
		"a limit came before that":                 {Reschedule, false, job.FailedLimit, job.Finished, job.FailedLimit, job.Finished},
		"it migrated, its supervisor killed":       {Migrate, false, job.FailedNoExitStatus, job.Finished, job.FailedMigrate, job.Restarts},
		"it migrated, and says so itself":          {Migrate, false, job.FailedMigrate, job.Restarts, job.FailedMigrate, job.Restarts},
		"its end was ordered":                      {Terminate, true, job.FailedNoExitStatus, job.Requeued, job.FailedNoExitStatus, job.Finished},
		"its end was ordered at once":              {Kill, true, job.FailedProlog, job.Requeued, job.FailedProlog, job.Finished},
		"it may be run again":                      {"", true, job.FailedNoExitStatus, job.IfRerunnable, job.FailedNoExitStatus, job.Requeued},
		"it may not be run again":                  {"", false, job.FailedNoExitStatus, job.IfRerunnable, job.FailedNoExitStatus, job.Finished},
		"it may be run again, but was to be ended": {Kill, true, job.FailedNoExitStatus, job.IfRerunnable, job.FailedNoExitStatus, job.Finished},
		"the queue's matter":                       {"", false, job.FailedProlog, job.Requeued, job.FailedProlog, job.Requeued},
	} {
		e := newEntry(job.ID{Job: 1}, Record{Rerunnable: c.rerunnable})
		e.run, e.endBy = &launch.Job{Description: &job.Description{}}, c.by
		o := w.agent.completeOutcome(e, &job.Outcome{Failed: c.failed, Effect: c.effect})
		if o.Failed != c.want || o.Effect != c.wantEffect {
			t.Errorf("%s: %d, %s, expected %d, %s", name, o.Failed, o.Effect, c.want, c.wantEffect)
		}
	}
}

// TestKillOfAJobThatEnds checks that a kill ends a job even if there is no space to record it, and
// that other orders for a job that is ending come too late.
func TestKillOfAJobThatEnds(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "sh", "-c", "trap '' TERM USR2; echo > ready; while :; do sleep 1; done")
	s.Request.Notify = true
	w.mustStart(s)
	w.await(s.ID, Running)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for { // that it runs does not say that the shell has come so far
		if _, err := os.Stat(filepath.Join(s.Request.WorkingDir, "ready")); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the job does not get ready")
		}
	}
	if err := w.agent.Signal(t.Context(), s.ID, Terminate); err != nil {
		t.Fatal(err)
	}
	w.await(s.ID, Ending)
	if err := w.agent.Signal(t.Context(), s.ID, Suspend); err != nil {
		t.Fatal(err)
	}
	if r, _ := w.agent.Job(s.ID); len(r.SuspendedBy) > 0 || r.State != Ending {
		t.Errorf("a job that ends was suspended: %+v", r)
	}
	if err := w.agent.Signal(t.Context(), s.ID, Kill); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(s.ID); o.ExitStatus != 137 || o.Effect != job.Finished {
		t.Errorf("%+v", o)
	}
	w.gone(s.ID)

	s = w.job(2, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	w.agent.table.mu.Lock()
	e := w.agent.table.jobs[s.ID]
	w.agent.table.mu.Unlock()
	// In the place of the file there is something that cannot be replaced.
	path := filepath.Join(e.run.Dir.Path(), fileEnding)
	if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := w.agent.Signal(t.Context(), s.ID, Terminate); err == nil {
		t.Error("what cannot be noted is done")
	}
	if err := w.agent.Signal(t.Context(), s.ID, Kill); err != nil {
		t.Errorf("a kill needs a note: %v", err)
	}
	if o := w.ended(s.ID); o.ExitStatus != 137 {
		t.Errorf("%+v", o)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Error(err)
	}
}

// TestOnlyRootRunsJobsOfOthers checks that an agent of an ordinary user runs only jobs of that
// user.
func TestOnlyRootRunsJobsOfOthers(t *testing.T) {
	for _, test := range []struct {
		uid   int
		owner uint32
		want  bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1000, 1001, false}, {1000, 0, false}} {
		if got := mayRunAs(test.uid, &userdb.User{UID: test.owner}); got != test.want {
			t.Errorf("user %d runs jobs of %d: %v", test.uid, test.owner, got)
		}
	}
}

// TestRequestsThatNoJobCanHave checks that an impossible request of a user fails the job. A master
// would hold an internal error against the queue, and one user could stop the queue for all others.
func TestRequestsThatNoJobCanHave(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(s *Start){
		"output below the home of an unknown user": func(s *Start) { s.Request.Output = hostPath("~no-such-user/out") },
		"a directory of an unknown user":           func(s *Start) { s.Request.WorkingDir = "~no-such-user" },
		"input and output in the same file":        func(s *Start) { s.Request.Input, s.Request.Output = hostPath("/tmp/x"), hostPath("/tmp/x") },
		"a relative directory":                     func(s *Start) { s.Request.WorkingDir = "relative" },
		"a directory of two lines":                 func(s *Start) { s.Request.WorkingDir = "/tmp/a\nprolog=/tmp/b" },
		"output to a path of two lines":            func(s *Start) { s.Request.Output = hostPath("/tmp/a\nb") },
		"a shell of two lines":                     func(s *Start) { s.Request.Shell = hostPath("/bin/sh\nb") },
		"a NUL byte in a value":                    func(s *Start) { s.Request.Env = []submit.Variable{{Name: "A", Value: "b\x00c"}} },
		"a terminal of two lines":                  func(s *Start) { s.Interactive = &Interactive{Term: "a\nb"} },
	} {
		s := w.job(1, "/bin/true")
		change(s)
		if _, err := w.agent.Start(t.Context(), s); codeOf(err) != InvalidArgument {
			t.Errorf("%s: %v, code %q", name, err, codeOf(err))
		}
		if w.agent.starts.succeed() {
			t.Errorf("%s: the agent doubts that it can start jobs", name)
		}
	}
	if jobs, troubles := w.agent.Jobs(), w.agent.Health().Troubles; len(jobs)+len(troubles) > 0 {
		t.Errorf("there are %+v, %q", jobs, troubles)
	}
}

// TestOwnersWhoseJobsAreNotRun checks that a refused owner does not count as a fault of the host:
// other jobs still start.
func TestOwnersWhoseJobsAreNotRun(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) {
			return load(t, map[string]string{
				"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nload_thresholds NONE\n", "conf/global": "min_uid 2147483647\n",
			}), "high", nil
		}
	})
	owners := []string{"root"}
	if os.Getuid() == 0 {
		owners = append(owners, w.job(1, "/bin/true").Owner)
	}
	for _, owner := range owners {
		s := w.job(1, "/bin/true")
		s.Owner = owner
		if _, err := w.agent.Start(t.Context(), s); codeOf(err) != InvalidArgument {
			t.Errorf("a job of %s: %v", owner, err)
		}
	}
	if jobs, troubles := w.agent.Jobs(), w.agent.Health().Troubles; len(jobs)+len(troubles) > 0 {
		t.Errorf("there are %+v, %q", jobs, troubles)
	}
}
