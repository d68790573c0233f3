package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

func codeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func TestJobRunsAndIsForgotten(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "/bin/sh", "-c", "exit 3")
	if r := w.mustStart(s); !r.State.Live() && !r.State.Over() || r.ID != s.ID || r.Key != "1" {
		t.Errorf("the start was answered with %+v", r)
	}
	o := w.ended(s.ID)
	if o.ExitStatus != 3 || o.Failed != job.FailedNone {
		t.Errorf("outcome %+v", o)
	}
	w.gone(s.ID)
	if r, err := w.agent.Start(t.Context(), s); err != nil || r.State != Acknowledged {
		t.Errorf("the same start afterwards: %+v, %v", r, err)
	}
}

// gone waits until nothing of a job is left.
func (w *world) gone(id job.ID) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; {
		w.agent.table.mu.Lock()
		_, there := w.agent.table.jobs[id]
		changed := w.agent.table.changed
		w.agent.table.mu.Unlock()
		if !there {
			break
		}
		select {
		case <-changed:
		case <-time.After(time.Until(deadline)):
			w.Fatalf("job %s stays", id)
		}
	}
	if _, err := os.Stat(w.spool.JobPath(id)); !errors.Is(err, os.ErrNotExist) {
		w.Errorf("the directory of job %s is still there: %v", id, err)
	}
	if _, err := os.Stat(w.spool.ScriptPath(id.Job)); !errors.Is(err, os.ErrNotExist) {
		w.Errorf("the script of job %s is still there: %v", id, err)
	}
}

func TestStartTwiceIsOneJob(t *testing.T) {
	w := newWorld(t)
	s := w.job(2, "/bin/sleep", "1000")
	answers := make(chan error, 10)
	for range cap(answers) {
		go func() {
			_, err := w.agent.Start(context.Background(), s)
			answers <- err
		}()
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	w.await(s.ID, Running)
	other := w.job(2, "/bin/true")
	other.Key = "another"
	if _, err := w.agent.Start(t.Context(), other); codeOf(err) != AlreadyExists {
		t.Errorf("another start of the same job: %v", err)
	}
	if n := len(w.agent.Jobs()); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
}

func TestOrders(t *testing.T) {
	w := newWorld(t)
	s := w.job(3, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	order := func(o Order) {
		t.Helper()
		if err := w.agent.Signal(t.Context(), s.ID, o); err != nil {
			t.Fatal(err)
		}
	}
	order(Suspend)
	w.await(s.ID, Suspended)
	order(SuspendQueue)
	order(Resume) // the queue still wants it suspended
	if r, _ := w.agent.Job(s.ID); r.State != Suspended || len(r.SuspendedBy) != 1 || r.SuspendedBy[0] != SuspendQueue {
		t.Errorf("after one of two reasons is gone: %+v", r)
	}
	if err := w.agent.SignalQueue(t.Context(), "all.q@"+host, Resume); err != nil {
		t.Fatal(err)
	}
	w.await(s.ID, Running)
	order(Terminate)
	if o := w.ended(s.ID); o.Signal == 0 || o.Effect != job.Finished {
		t.Errorf("outcome %+v", o)
	}
	if err := w.agent.Signal(t.Context(), job.ID{Job: 99}, Kill); codeOf(err) != NotFound {
		t.Errorf("an order to no job: %v", err)
	}
}

func TestReschedule(t *testing.T) {
	w := newWorld(t)
	s := w.job(4, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	if err := w.agent.Signal(t.Context(), s.ID, Reschedule); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(s.ID); o.Failed != job.FailedReschedule || o.Effect != job.Restarts || o.ExitStatus != 0 {
		t.Errorf("outcome %+v", o)
	}
	w.gone(s.ID)
	s.Key, s.Restarted = "4 again", job.RestartedJob
	w.mustStart(s)
	w.await(s.ID, Running)
}

// TestRestart checks that a restarted agent continues with the jobs that it finds, and reports
// those that finished meanwhile.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	short, long := w.job(5, "/bin/sh", "-c", "read x < fifo; exit 7"), w.job(6, "/bin/sleep", "1000")
	fifo := filepath.Join(short.Request.WorkingDir, "fifo")
	makeFifo(t, fifo)
	w.mustStart(short)
	w.mustStart(long)
	w.await(short.ID, Running)
	before := w.await(long.ID, Running)
	if err := w.agent.Signal(t.Context(), long.ID, Suspend); err != nil {
		t.Fatal(err)
	}
	w.await(long.ID, Suspended)
	w.stop()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	w.start()
	if o := w.ended(short.ID); o.ExitStatus != 7 || o.Failed != job.FailedNone {
		t.Errorf("outcome %+v", o)
	}
	w.gone(short.ID)
	after := w.await(long.ID, Suspended)
	if after.PID != before.PID || after.Number <= before.Number || !after.Started.Equal(before.Started) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if err := w.agent.Signal(t.Context(), long.ID, Resume); err != nil {
		t.Fatal(err)
	}
	w.await(long.ID, Running)
}

func TestEpochs(t *testing.T) {
	w := newWorld(t)
	s := w.job(7, "/bin/true")
	s.Epoch = 5
	w.mustStart(s)
	old := w.job(8, "/bin/true")
	old.Epoch = 4
	if _, err := w.agent.Start(t.Context(), old); codeOf(err) != FailedPrecondition {
		t.Errorf("a start of a master that was replaced: %v", err)
	}
	w.stop()
	w.start()
	if _, err := w.agent.Start(t.Context(), old); codeOf(err) != FailedPrecondition {
		t.Errorf("and after a restart of the agent: %v", err)
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	if err := w.agent.Drain(t.Context(), "new memory"); err != nil {
		t.Fatal(err)
	}
	if err := w.agent.DrainFor("health check", "a disk is full"); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	s := w.job(9, "/bin/true")
	if _, err := w.agent.Start(t.Context(), s); codeOf(err) != Unavailable {
		t.Errorf("a start while the host is drained: %v", err)
	}
	if err := w.agent.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.agent.Health().Draining; got != "health check: a disk is full" {
		t.Errorf("the administrator's resume leaves %q", got)
	}
	if err := w.agent.DrainFor("health check", ""); err != nil {
		t.Fatal(err)
	}
	w.mustStart(s)
	w.ended(s.ID)
}

// TestShutdownEndsJobs checks that the next agent reports the jobs that a shutdown has ended.
func TestShutdownEndsJobs(t *testing.T) {
	w := newWorld(t)
	s := w.job(10, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	w.agent.Shutdown(true)
	w.stop()
	w.start()
	if o := w.ended(s.ID); o.Signal == 0 || o.Effect != job.Finished {
		t.Errorf("outcome %+v", o)
	}
}

// TestConfigureKeepsGroups checks that a reload keeps the control groups with which jobs were
// prepared, and that an unusable configuration changes nothing at all.
func TestConfigureKeepsGroups(t *testing.T) {
	text := "min_uid 1\n"
	broken := false
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) {
			if broken {
				return nil, "", errors.New("it is broken")
			}
			return load(t, map[string]string{
				"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nload_thresholds NONE\n", "conf/global": text,
			}), text, nil
		}
	})
	groups := func() *launch.Groups {
		w.agent.table.mu.Lock()
		defer w.agent.table.mu.Unlock()
		_, groups := w.agent.settings.current()
		return groups
	}
	s := w.job(11, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	first := groups()
	text = "min_uid 2\n"
	if err := w.agent.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if groups() != first {
		t.Error("groups were made anew, though nothing has changed for them")
	}
	text = "cgroups_params cgroup_path=none\n"
	if err := w.agent.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if groups() != nil {
		t.Error("there are groups, though none are wanted any more")
	}
	broken = true
	if err := w.agent.Configure(t.Context()); codeOf(err) != InvalidArgument || w.agent.Health().ConfigurationError == "" {
		t.Errorf("a broken configuration: %v, %+v", err, w.agent.Health())
	}
	if v := w.agent.Health().Configuration; v != text {
		t.Errorf("the version is %q", v)
	}
	if err := w.agent.Signal(t.Context(), s.ID, Terminate); err != nil {
		t.Fatal(err)
	}
	w.ended(s.ID)
	w.gone(s.ID)
}

// TestGroupsOfJobsThatAreGone checks that the next agent removes the control groups of unknown
// jobs, with the processes in them, and keeps those of running jobs.
func TestGroupsOfJobsThatAreGone(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup)
	w := newWorld(t)
	s := w.job(1, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	w.agent.table.mu.Lock()
	own := w.agent.table.jobs[s.ID].run.Group()
	w.agent.table.mu.Unlock()
	if own == nil || len(own.Dirs) == 0 {
		t.Fatal("the job has no group")
	}
	w.stop()
	var left []string
	for _, dir := range own.Dirs {
		for _, name := range []string{"2.1", "1.2", "7.1.1.node1"} {
			left = append(left, filepath.Join(filepath.Dir(dir), name))
		}
	}
	for _, dir := range left {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	orphan := exec.Command("sleep", "1000")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left[0], "cgroup.procs"), []byte(strconv.Itoa(orphan.Process.Pid)), 0o644); err != nil {
		t.Fatal(err, orphan.Process.Kill(), orphan.Wait())
	}
	ended := make(chan struct{})
	go func() {
		_ = orphan.Wait() // it is killed
		close(ended)
	}()
	w.start()
	for _, dir := range left {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a process in such a group goes on", orphan.Process.Kill())
	}
	for _, dir := range own.Dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the group of a job that runs: %v", err)
		}
	}
	w.mustStart(w.job(2, "/bin/true"))
	if o := w.ended(job.ID{Job: 2}); !o.Ran || o.ExitStatus != 0 {
		t.Errorf("a job of that number: %+v", o)
	}
}
