package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

var seven = job.ID{Job: 7}

// TestJobOfADaemon goes through all of a job, without a break.
func TestJobOfADaemon(t *testing.T) {
	p := newPlace(t)
	o, err := p.order("echo $$ $NSLOTS $NHOSTS $NQUEUES $RESTARTED > " + p.dir + "/out/a; test -t 0 || readlink /proc/$$/fd/0 >> " + p.dir + "/out/a; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	o.Hosts = []jobdir.PEHost{
		{Host: "host", Slots: 1, Queue: "all.q@host"},
		{Host: "b", Slots: 2, Queue: "all.q@b"},
		{Host: "b", Slots: 2, Queue: "other.q@b", Processors: "1-2"},
	}
	o.TotalSlots, o.Restarted, o.Record = 5, job.RestartedJob, []byte("who and when\n")
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	if j.PID() != 0 {
		t.Errorf("process %d before the launch", j.PID())
	}
	if _, err := j.Wait(t.Context()); err == nil {
		t.Error("waited for a job that was not launched")
	}
	if b, _, err := j.Dir.Start(); err != nil || string(b) != "who and when\n" {
		t.Errorf("the record is %q, %v", b, err)
	}
	if info, err := os.Stat(j.Dir.Path() + "/" + jobdir.FileStart); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of the record is %v, %v", info.Mode(), err)
	}
	if hosts, err := j.Dir.PEHosts(); err != nil || len(hosts) != 3 || hosts[2].Processors != "1-2" {
		t.Errorf("pe_hostfile: %+v, %v", hosts, err)
	}
	launched(t, j)
	pid := j.PID()
	if err := j.Launch(realSupervisor(t)); !errors.Is(err, ErrLaunched) {
		t.Errorf("launched twice: %v", err)
	}
	if status := waited(t, j); status.ExitStatus() != 0 || pid == 0 || j.PID() != 0 {
		t.Errorf("the supervisor, process %d, ended with %#x; then it is process %d", pid, status, j.PID())
	}
	if err := j.Launch(realSupervisor(t)); !errors.Is(err, ErrLaunched) {
		t.Errorf("launched again: %v", err)
	}
	out := j.Collect(waited(t, j))
	if !out.Ran || out.ExitStatus != 3 || out.Failed != 0 {
		t.Errorf("outcome %+v", out)
	}
	b, err := os.ReadFile(p.dir + "/out/a")
	f := strings.Fields(string(b))
	if err != nil || len(f) != 6 || strings.Join(f[1:], " ") != "5 2 3 1 /dev/null" {
		t.Errorf("the job saw %q, %v", b, err)
	}
	for _, what := range []string{"first", "second"} {
		if err := j.Remove(false); err != nil {
			t.Errorf("the %s removal: %v", what, err)
		}
	}
	p.nothingLeft(t)
}

// TestOpen checks what another process finds of a job at each stage, and what that process can do.
func TestOpen(t *testing.T) {
	t.Run("prepared: it is launched", func(t *testing.T) {
		p := newPlace(t)
		p.killedAgent(t, "prepare", "exit 3")
		j := p.reopen(t, seven, Prepared)
		launched(t, j)
		if o := j.Collect(waited(t, j)); o.ExitStatus != 3 || o.Failed != 0 {
			t.Errorf("outcome %+v", o)
		}
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	})
	t.Run("supervised: it is waited for, and takes orders", func(t *testing.T) {
		p := newPlace(t)
		p.killedAgent(t, "launch", "trap 'exit 5' USR1; echo > "+p.dir+"/out/ready; while :; do sleep 0.02; done")
		pid := p.spool.JobPath(seven) + "/" + jobdir.FileJobPID // which comes when the job runs already
		until(t, "the job", func() bool { return exists(p.dir+"/out/ready") && exists(pid) })
		j := p.reopen(t, seven, Supervised)
		if j.PID() == 0 || !j.Running() {
			t.Errorf("process %d, running: %v", j.PID(), j.Running())
		}
		if err := j.Launch(realSupervisor(t)); !errors.Is(err, ErrLaunched) {
			t.Errorf("launched twice: %v", err)
		}
		if err := j.Remove(false); !errors.Is(err, ErrSupervised) {
			t.Errorf("removed: %v", err)
		}
		if !j.Running() {
			t.Error("it does not run any more")
		}
		if err := j.Notify(unix.SIGUSR1); err != nil {
			t.Error(err)
		}
		if status := waited(t, j); status != 0 {
			t.Errorf("the end of a stranger is known: %#x", status)
		}
		if o := j.Collect(0); o.ExitStatus != 5 || o.Failed != 0 {
			t.Errorf("outcome %+v", o)
		}
		if err := j.Terminate(); err != nil {
			t.Errorf("an order that comes too late: %v", err)
		}
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	})
	t.Run("over: it is collected and removed", func(t *testing.T) {
		p := newPlace(t)
		j := p.prepare(t, seven, "exit 4")
		launched(t, j)
		waited(t, j)
		again := p.reopen(t, seven, Over)
		if err := again.Launch(realSupervisor(t)); !errors.Is(err, ErrLaunched) {
			t.Errorf("launched twice: %v", err)
		}
		if o := again.Collect(waited(t, again)); o.ExitStatus != 4 || o.Failed != 0 {
			t.Errorf("outcome %+v", o)
		}
		if err := again.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	})
	t.Run("of another boot: it is over, whatever is there", func(t *testing.T) {
		p := newPlace(t)
		j := p.prepare(t, seven, "exit 4")
		j.own.boot = "another"
		if err := j.Dir.WriteFile(fileOwn, j.own.format()); err != nil {
			t.Fatal(err)
		}
		again := p.reopen(t, seven, Over)
		if !again.Rebooted() {
			t.Error("nothing is known of the other boot")
		}
		if o := again.Collect(waited(t, again)); o.Failed != job.FailedBeforeProlog {
			t.Errorf("outcome %+v", o)
		}
		if err := again.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	})
	t.Run("the power was gone, and most files with it: it is over, and all of it can be removed", func(t *testing.T) {
		p := newPlace(t)
		former := bootID
		bootID = func() string { return "another" }
		j := p.prepare(t, seven, "exit 4")
		bootID = former
		want, err := j.Dir.Description()
		if err != nil {
			t.Fatal(err)
		}
		text, err := j.Dir.ReadFile(jobdir.FileStart)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{fileOwn, jobdir.FileTmpdir, jobdir.FileEnvironment, jobdir.FileArguments, jobdir.FilePEHosts, jobdir.FileConfig} {
			err := j.Dir.Remove(name)
			if i%2 == 0 {
				err = j.Dir.WriteFile(name, make([]byte, 5))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		again := p.reopen(t, seven, Over)
		if !again.Rebooted() {
			t.Error("nothing is known of the other boot")
		}
		if diff := cmp.Diff(want, again.Description); diff != "" {
			t.Error(diff)
		}
		if o := again.Collect(waited(t, again)); o.Failed != job.FailedBeforeProlog {
			t.Errorf("outcome %+v", o)
		}
		if now, err := again.Dir.ReadFile(jobdir.FileStart); err != nil || string(now) != string(text) {
			t.Errorf("what it was made of has changed: %q, %v", now, err)
		}
		if err := again.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	})
	t.Run("kept: there is no job, and the next run takes its place", func(t *testing.T) {
		p := newPlace(t)
		j := p.prepare(t, seven, "exit 4")
		if _, err := Prepare(p.spool, must(p.order("true")), seven); !errors.Is(err, jobdir.ErrExists) {
			t.Errorf("prepared twice: %v", err)
		}
		launched(t, j)
		waited(t, j)
		if err := j.Remove(true); err != nil {
			t.Fatal(err)
		}
		again := p.reopen(t, seven, Kept)
		_ = again.Close()
		next := p.prepare(t, seven, "exit 5")
		if !exists(p.spool.JobPath(seven) + ".0") {
			t.Error("the former directory is not there")
		}
		if err := next.Remove(false); err != nil {
			t.Error(err)
		}
		if names := p.left(t); len(names) != 1 {
			t.Errorf("left over: %q", names)
		}
	})
	t.Run("incomplete: it is discarded", func(t *testing.T) {
		p := newPlace(t)
		j := p.prepare(t, seven, "exit 4")
		if err := j.Dir.Remove(jobdir.FileConfig); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(p.spool, nil, nil, seven); !errors.Is(err, jobdir.ErrIncomplete) {
			t.Fatal(err)
		}
		for range 2 {
			if err := Discard(p.spool, nil, seven); err != nil {
				t.Error(err)
			}
		}
		p.nothingLeft(t)
	})
	t.Run("complete: it is not discarded", func(t *testing.T) {
		p := newPlace(t)
		p.prepare(t, seven, "exit 4")
		if err := Discard(p.spool, nil, seven); err != nil {
			t.Error(err)
		}
		p.reopen(t, seven, Prepared)
	})
}

func must(o *Assignment, err error) *Assignment {
	if err != nil {
		panic(err)
	}
	return o
}

// TestSupervisorWithoutANumber checks that the lock shows that a supervisor is running if its process
// ID is not recorded.
func TestSupervisorWithoutANumber(t *testing.T) {
	p := newPlace(t)
	j := p.prepare(t, seven, "exit 3")
	// As the program of a supervisor that takes its time.
	slow := p.dir + "/out/" + ShepherdName
	script := "#!/bin/sh\nread x < " + p.dir + "/out/go\nexec " + realSupervisor(t) + "\n"
	if err := errors.Join(os.WriteFile(slow, []byte(script), 0o755), unix.Mkfifo(p.dir+"/out/go", 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := j.Launch(slow); err != nil {
		t.Fatal(err)
	}
	again := p.reopen(t, seven, Supervised)
	if again.PID() != 0 {
		t.Errorf("process %d", again.PID())
	}
	if err := again.Terminate(); err == nil {
		t.Error("the order has reached somebody")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	if _, err := again.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited: %v", err)
	}
	cancel()
	if err := again.Launch(realSupervisor(t)); !errors.Is(err, ErrLaunched) {
		t.Errorf("launched twice: %v", err)
	}
	if err := os.WriteFile(p.dir+"/out/go", []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	waited(t, again)
	waited(t, j)
	if o := again.Collect(0); o.ExitStatus != 3 || o.Failed != 0 {
		t.Errorf("outcome %+v", o)
	}
}

// TestLaunchedOnce checks that a job starts once if many agents that do not know each other launch it
// at the same time.
func TestLaunchedOnce(t *testing.T) {
	p := newPlace(t)
	shepherd := realSupervisor(t)
	for n := 1; n <= 10; n++ {
		id := job.ID{Job: n}
		_ = p.prepare(t, id, "echo run >> "+p.dir+"/out/runs").Close()
		var all sync.WaitGroup
		var launches atomic.Int32
		var jobs [4]*Job
		for i := range jobs {
			jobs[i] = p.reopen(t, id, Prepared)
		}
		for _, j := range jobs {
			all.Go(func() {
				err := j.Launch(shepherd)
				switch {
				case err == nil:
					launches.Add(1)
					if _, err := j.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				case !errors.Is(err, ErrLaunched):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if launches.Load() != 1 || p.hasRun() != n {
			t.Fatalf("job %d was launched %d times, so far jobs have run %d times", n, launches.Load(), p.hasRun())
		}
	}
}

// TestLaunchWhileAnotherProcessHoldsLock holds the lock of a job directory for a moment, as a
// process does that looks whether the supervisor runs: the job is launched all the same.
func TestLaunchWhileAnotherProcessHoldsLock(t *testing.T) {
	p := newPlace(t)
	j := p.prepare(t, seven, "exit 3")
	shepherd := realSupervisor(t)
	lock, err := j.lock(0)
	if err != nil {
		t.Fatal(err)
	}
	const moment = 300 * time.Millisecond
	later := time.AfterFunc(moment, func() { lock.Close() })
	defer later.Stop()
	if err := j.Launch(shepherd); err != nil {
		t.Fatal(err)
	}
	waited(t, j)
	if o := j.Collect(0); o.ExitStatus != 3 || o.Failed != 0 {
		t.Errorf("outcome %+v", o)
	}
}

// TestWaitWithoutThreads checks that each of many jobs has its own outcome if one thread waits for all
// of them.
func TestWaitWithoutThreads(t *testing.T) {
	p := newPlace(t)
	const jobs = 100
	if err := unix.Mkfifo(p.dir+"/out/go", 0o666); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(p.dir+"/out/go", 0o666)
	hold, err := os.OpenFile(p.dir+"/out/go", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	ends := map[int]syscall.WaitStatus{}
	var list []*Job
	for n := 1; n <= jobs; n++ {
		// A shell instead of a supervisor, which costs a fifth.
		j := p.prepare(t, job.ID{Job: n}, "true")
		if err := j.Launch(p.script(t, fmt.Sprintf("exec 3<&-; read x < %s/out/go; exit %d", p.dir, n))); err != nil {
			t.Fatal(err)
		}
		list = append(list, j)
		all.Go(func() {
			status, err := j.Wait(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ends[n] = status
		})
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	t.Attr("threads", fmt.Sprint(len(threads)))
	if len(threads) > jobs/2 {
		t.Errorf("%d threads wait for %d jobs", len(threads), jobs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := list[0].Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waited: %v", err)
	}
	if _, err := hold.WriteString(strings.Repeat("\n", 2*jobs)); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	hold.Close()
	for n := 1; n <= jobs; n++ {
		if ends[n].ExitStatus() != n {
			t.Errorf("job %d ended with %#x", n, ends[n])
		}
	}
	for _, j := range list {
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
	}
	p.nothingLeft(t)
}

// script returns a shell script in place of a supervisor.
func (p *place) script(t testing.TB, text string) string {
	t.Helper()
	f, err := os.CreateTemp(p.dir, ShepherdName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\n" + text + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Chmod(0o755), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestLateSuspensionIsResumed checks that a request to suspend the job that the shepherd handles after a request to resume it,
// because it does not know their order, resumes the job.
func TestLateSuspensionIsResumed(t *testing.T) {
	p := newPlace(t)
	j, err := Prepare(p.spool, must(p.order("sleep 1000")), seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	until(t, "the job", j.Running)
	traced := func(what string, times int) {
		t.Helper()
		until(t, what, func() bool {
			text, err := j.Dir.ReadFile(jobdir.FileTrace)
			return err == nil && strings.Count(string(text), what) >= times
		})
	}
	if err := j.Suspend(); err != nil {
		t.Fatal(err)
	}
	traced("asked to suspend the job", 1)
	if err := j.Resume(); err != nil {
		t.Fatal(err)
	}
	traced("asked to resume the job", 1)
	if err := j.shepherd.signal(unix.SIGTTIN); err != nil {
		t.Fatal(err)
	}
	traced("asked to resume the job", 2)
	if err := j.Suspend(); err != nil {
		t.Fatal(err)
	}
	traced("asked to suspend the job", 2)
	j.Kill()
	j.Collect(waited(t, j))
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}
