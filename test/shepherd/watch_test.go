package shepherd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/quantity"
)

// means is how a job's limits are enforced: by the shepherd with /proc only, or with a control
// group that was created for the job.
type means int

const (
	byProc  means = iota
	byGroup       // and the kernel holds the limits of memory, where it can
)

var allMeans = map[string]means{"without a group": byProc, "with a group": byGroup}

// groups creates the control groups of all tests.
var groups struct {
	sync.Mutex
	*cgroup.Manager
}

func closeGroups() {
	if groups.Manager == nil {
		return
	}
	if _, err := groups.Sweep(deadline, func(string) bool { return true }); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	groups.Close()
}

// hold prepares a job for the enforcement of its limits.
func (j *testJob) hold(m means) {
	j.t.Helper()
	if m == byProc {
		return
	}
	testenv.Require(j.t, testenv.Cgroup)
	if j.mode == asUser {
		j.t.Skip("needs a job that is started by root: nobody has delegated a group to its user")
	}
	groups.Lock()
	defer groups.Unlock()
	if groups.Manager == nil {
		var err error
		groups.Manager, err = cgroup.Open(cgroup.Config{Name: filepath.Base(base), MoveSelf: true})
		j.check(err)
	}
	wide := limits.OfJob(j.d)
	l := cgroup.Limits{Counted: true, Pids: j.threads}
	if wide.Vmem.Hard != quantity.Infinity {
		l.Vmem = wide.Vmem.Hard
	}
	if wide.RSS.Hard != quantity.Infinity {
		l.RSS = wide.RSS.Hard
	}
	made, err := groups.Create(cgroup.Name(j.d.ID), l)
	j.check(err)
	j.t.Cleanup(func() {
		groups.Lock()
		defer groups.Unlock()
		if err := made.Remove(deadline); err != nil {
			j.t.Error(err)
		}
	})
	for _, unmet := range made.Unmet() {
		j.t.Log(unmet)
	}
	j.check(os.WriteFile(j.active+"/"+jobdir.FileCgroup, []byte(made.Paths().Format()), 0o644))
	j.group = made.Paths()
}

// usesMore creates a job that runs a payload.
func usesMore(t *testing.T, m means, payload string, limit func(l *job.Limits)) *testJob {
	t.Helper()
	j := newJob(t, best(), "")
	args := strings.Fields(payload)
	j.d.Command = job.Command{
		File: base + "/bin/payload", Args: args, Binary: true, NoShell: true, Shell: "/bin/sh", StartMode: job.UnixBehavior,
	}
	j.d.VmemLimit = job.VmemMemory // Go maps more than it uses
	limit(&j.d.Limits)
	j.hold(m)
	return j
}

func hard(r job.Resource, v uint64) func(l *job.Limits) {
	return func(l *job.Limits) { l[r] = job.Limit{Soft: quantity.Infinity, Hard: v} }
}

// TestWholeJobLimits checks that a limit applies to all processes of a job together, and that the
// result names the limit.
func TestWholeJobLimits(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		payload string
		limit   func(l *job.Limits)
		name    string
		value   float64
	}{
		"h_cpu, four processes": {"burn 4", hard(job.CPU, 2), "h_cpu", 2},
		// The original's daemon checks once a second and misses these.
		"h_cpu, processes that live 10 ms": {"spawn 2 10", hard(job.CPU, 2), "h_cpu", 2},
		"h_vmem, four processes":           {"hold 4 80", hard(job.Vmem, 200*mib), "h_vmem", 200 * mib},
		"h_vmem, all at once":              {"hold 8 190", hard(job.Vmem, 200*mib), "h_vmem", 200 * mib},
		// The original never enforces it.
		"h_rss": {"hold 1 300", hard(job.RSS, 100*mib), "h_rss", 100 * mib},
	} {
		for by, m := range allMeans {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				j := usesMore(t, m, c.payload, c.limit)
				j.run()
				j.limited(c.name, c.value, c.value, 137)
				j.nothingLeft()
				u := j.usage()
				if u == nil || u.Limit == nil {
					t.FailNow()
				}
				if named := strings.Contains(u.Reason, "; largest processes: payload ("); named != (c.name != "h_cpu") {
					t.Errorf("reason %q", u.Reason)
				}
				if c.name != "h_cpu" && u.MaxVmem < int64(u.Limit.Measured) {
					t.Errorf("peak %d, but it was measured with %v", u.MaxVmem, u.Limit.Measured)
				}
				if c.name == "h_cpu" && (u.CPU < c.value || u.Limit.Measured > 1.5*c.value) {
					t.Errorf("ended at %v s of CPU time, having used %v s, of %v s", u.Limit.Measured, u.CPU, c.value)
				}
				if j.group != nil && c.name != "h_cpu" && j.group.VmemLimit+j.group.RSSLimit > 0 && float64(u.MaxVmem) > c.value+4*mib {
					// The kernel charges the pages of the program to the group that read it first.
					t.Errorf("it had %d bytes where the kernel allows %v", u.MaxVmem, c.value)
				}
			})
		}
	}
}

// TestMemoryLimitHasTheNameOfItsRequest ends a job that has requested memory by another name than h_vmem.
func TestMemoryLimitHasTheNameOfItsRequest(t *testing.T) {
	for by, m := range allMeans {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			j := usesMore(t, m, "hold 2 80", hard(job.Vmem, 100<<20))
			j.d.VmemComplex = "mem_free"
			j.run()
			j.limited("mem_free", 100<<20, 100<<20, 137)
		})
	}
}

// TestSharedMemoryCountsOnce checks that six processes that share 100 MiB do not count as 600 MiB.
func TestSharedMemoryCountsOnce(t *testing.T) {
	for by, m := range allMeans {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			// A shell of dash has nothing worth sharing: the memory is that of a
			// program which fills it and then forks.
			j := newJob(t, best(), "exec python3 -c '"+
				"import os,time\nx=bytearray(100<<20)\n"+
				"for i in range(5):\n if os.fork()==0: break\n"+
				"time.sleep(1)'")
			j.d.VmemLimit = job.VmemMemory
			hard(job.Vmem, 200<<20)(&j.d.Limits)
			j.hold(m)
			j.run()
			j.expect(0)
			j.expectUsage(0, 0)
		})
	}
}

// TestWarnings checks that each process gets SIGXCPU once per crossing.
func TestWarnings(t *testing.T) {
	for by, m := range allMeans {
		t.Run("s_cpu "+by, func(t *testing.T) {
			t.Parallel()
			// After the warning it goes on for longer than the kernel, or the
			// original, would take to repeat it.
			j := newJob(t, best(), `
				trap 'echo warned >>$LOG' XCPU
				until grep -q warned $LOG; do :; done
				i=0; while [ $i -lt 2500000 ]; do i=$((i+1)); done`)
			j.d.Limits[job.CPU] = job.Limit{Soft: 2, Hard: 100}
			j.hold(m)
			j.run()
			j.expect(0)
			if got := strings.Count(strings.Join(j.logged(), " "), "warned"); got != 1 {
				t.Errorf("warned %d times", got)
			}
			if u := j.usage(); u == nil || u.CPU < 3.1 {
				t.Errorf("it has not gone on for a second: %+v", u)
			}
		})
		t.Run("s_vmem "+by, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), `exec python3 -c '
import os, signal, time
log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
warned = 0
def warn(n, f):
    global warned
    warned += 1
    os.write(log, b"warned\n")
signal.signal(signal.SIGXCPU, warn)
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def fill(n):
    x = bytearray(120 << 20)
    while warned < n: pass
    work(0.8) # in which it is not warned again
fill(1)
work(1.5) # for anybody to have looked, on any machine
fill(2)'`)
			j.d.Limits[job.Vmem] = job.Limit{Soft: 80 << 20, Hard: 400 << 20}
			j.hold(m)
			j.run()
			j.expect(0)
			if got := strings.Count(strings.Join(j.logged(), " "), "warned"); got != 2 {
				t.Errorf("warned %d times for two crossings", got)
			}
		})
	}
	t.Run("who does not catch it has exceeded the limit", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, best(), "while :; do :; done")
		j.d.Limits[job.CPU] = job.Limit{Soft: 2, Hard: 100}
		j.run()
		j.limited("s_cpu", 2, 2, 152)
	})
}

// TestNothingOutlivesItsKill checks that no process of a job survives, however it forks.
func TestNothingOutlivesItsKill(t *testing.T) {
	for name, payload := range map[string]string{
		"200 processes in sessions of their own": "tree 200",
		"a chain":                                "chain",
		"a chain through sessions":               "chain setsid",
		"a fork bomb":                            "bomb 500",
		"one held on its way out by its child":   "undead",
	} {
		for by, m := range allMeans {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				j := usesMore(t, m, payload, hard(job.RT, 1))
				j.run()
				j.limited("h_rt", 1, 1, 137)
				j.nothingLeft()
			})
		}
	}
	for by, m := range allMeans {
		t.Run("daemons of a job that ends "+by, func(t *testing.T) {
			t.Parallel()
			j := usesMore(t, m, "daemon 50", func(*job.Limits) {})
			j.run()
			j.expect(0)
			j.nothingLeft()
		})
	}
}

// TestStalledShepherd checks that a job that finished in time is not reported as over its limit if
// its shepherd notices the end too late.
func TestStalledShepherd(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "read x <$GO; exit 5")
	release := j.fifo("go")
	j.setenv("GO=" + release.path)
	hard(job.RT, 2)(&j.d.Limits)
	j.write()
	j.start()
	await(t, "the job to run", func() bool { return j.file("job_pid") != "" })
	started := time.Now()
	j.check(j.cmd.Process.Signal(unix.SIGSTOP))
	j.check(os.WriteFile(release.path, []byte("x\n"), 0))
	pid, err := strconv.Atoi(strings.TrimSpace(j.file("job_pid")))
	j.check(err)
	await(t, "the job to end", func() bool { return !alive(pid) })
	await(t, "its limit to pass", func() bool { return time.Since(started) > 2500*time.Millisecond })
	j.check(j.cmd.Process.Signal(unix.SIGCONT))
	j.wait()
	j.expect(0)
	j.expectUsage(5, 0)
}

// TestFence checks that the kernel kills a job that exceeds h_cpu while its shepherd is stopped,
// either the whole job or one process, and that the result still names the limit.
func TestFence(t *testing.T) {
	const burn = "while :; do :; done"
	for name, script := range map[string]string{
		"the first process":               burn,
		"one that the first one survives": "sh -c '" + burn + "'; exit $?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), script)
			hard(job.CPU, 1)(&j.d.Limits)
			j.write()
			j.start()
			await(t, "the job to run", func() bool { return j.file("job_pid") != "" })
			j.check(j.cmd.Process.Signal(unix.SIGSTOP))
			pid, err := strconv.Atoi(strings.TrimSpace(j.file("job_pid")))
			j.check(err)
			await(t, "the job to end", func() bool { return !alive(pid) })
			j.check(j.cmd.Process.Signal(unix.SIGCONT))
			j.wait()
			j.limited("h_cpu", 1, 1, 137)
		})
	}
}

// TestSuspendedByTheFreezer checks that a process of a suspended job stays frozen even if another
// process of the job sends it SIGCONT.
func TestSuspendedByTheFreezer(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), `
		(setsid sh -c 'while :; do kill -CONT -1 2>/dev/null; kill -CONT $1; done' sh $$ &)
		while :; do echo x >>beats; done`)
	j.hold(byGroup)
	j.needsFreezer()
	j.write()
	j.start()
	size := func() int64 {
		st, err := os.Stat(j.work + "/beats")
		if err != nil {
			return 0
		}
		return st.Size()
	}
	await(t, "the job to run", func() bool { return size() > 0 })
	j.check(os.WriteFile(j.active+"/signal", []byte(strconv.Itoa(int(unix.SIGSTOP))), 0o644))
	j.signal(unix.SIGTTIN)
	open, err := group.Open(j.group)
	j.check(err)
	defer open.Close()
	await(t, "the job to stand still", func() bool { frozen, err := open.Frozen(); return err == nil && frozen })
	before := size()
	for range 50 { // whatever runs, runs on meanwhile
		unix.Sync()
	}
	if after := size(); after != before {
		t.Errorf("it has written %d bytes while it was suspended", after-before)
	}
	j.signal(unix.SIGCONT)
	await(t, "the job to go on", func() bool { return size() > before })
	j.signal(unix.SIGTSTP)
	j.wait()
	j.expectUsage(137, 9)
	j.nothingLeft()
}

// TestUsageOfTheEnded checks that the usage of processes counts even if they were short-lived.
func TestUsageOfTheEnded(t *testing.T) {
	for by, m := range allMeans {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), `
				for i in 1 2 3 4 5 6 7 8 9 10; do
					dd if=/dev/zero of=/dev/null bs=1M count=100 2>/dev/null
				done
				sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'`)
			j.hold(m)
			j.run()
			j.expect(0)
			u := j.usage()
			if u == nil {
				t.FailNow()
			}
			// Read and written: 1000 MiB each.
			if want := 2000.0 / 1024; math.Abs(u.IO-want) > 0.01 {
				t.Errorf("io %v GiB, want %v", u.IO, want)
			}
			if u.IOOps < 2000 || u.IOOps > 4000 {
				t.Errorf("%d reads and writes, want 2000 and those of the shells", u.IOOps)
			}
			if u.PeakRSS < u.MaxRSS || u.PeakRSS > 64<<20 {
				t.Errorf("maxrss %d, ru_maxrss %d", u.PeakRSS, u.MaxRSS)
			}
			if own := u.UserTime + u.SystemTime; u.CPU < 0.95*own || u.CPU > 1.1*own+0.05 {
				t.Errorf("cpu %v s, rusage has %v s", u.CPU, own)
			}
			if u.MaxVmem < 1<<20 || u.MaxVmem > 64<<20 {
				t.Errorf("maxvmem %d", u.MaxVmem)
			}
		})
	}
}

// TestGroupThatIsGone checks that a job whose group cannot be used does not run without it.
func TestGroupThatIsGone(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "exit 0")
	paths := group.Paths{Dirs: []string{"/nonexistent"}}
	paths.File[group.CgroupEvents] = "/nonexistent/cgroup.events"
	j.check(os.WriteFile(j.active+"/"+jobdir.FileCgroup, []byte(paths.Format()), 0o644))
	j.run()
	if got := j.failed(); got != job.FailedBeforeProlog {
		t.Errorf("failed %d", got)
	}
	j.expectError("control group of the job: cannot open /nonexistent/cgroup.events")
	if _, err := os.Stat(j.work + "/out"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the job has run")
	}
}

// TestLimitThroughTerminateMethod checks that a job over h_cpu gets the terminate method, and is
// killed if that does not help.
func TestLimitThroughTerminateMethod(t *testing.T) {
	const burn = `
		trap 'echo told >>$LOG; %s' USR1 USR2
		while :; do :; done`
	for name, c := range map[string]struct {
		script string
		edit   func(d *job.Description)
		status int
		told   int
	}{
		"by a signal that the job obeys": {
			fmt.Sprintf(burn, "exit 3"), func(d *job.Description) { d.TerminateMethod = "SIGUSR1" }, 3, 1,
		},
		"by a signal that the job ignores": {
			fmt.Sprintf(burn, ":"), func(d *job.Description) {
				d.TerminateMethod, d.LimitGrace = "SIGUSR1", 3*time.Second
			}, 137, 1,
		},
		"after a notification": {
			fmt.Sprintf(burn, ":"), func(d *job.Description) { d.Notify = 3 * time.Second }, 137, 1,
		},
	} {
		for by, m := range allMeans {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, best(), c.script)
				hard(job.CPU, 2)(&j.d.Limits)
				c.edit(j.d)
				j.hold(m)
				j.run()
				j.limited("h_cpu", 2, 2, c.status)
				j.nothingLeft()
				if got := strings.Count(strings.Join(j.logged(), " "), "told"); got != c.told {
					t.Errorf("told %d times, want %d", got, c.told)
				}
			})
		}
	}
}

// TestNobodyWaits checks that the CPU time of a process for which no process waits is not lost with
// it, as far as it was measured.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), `exec python3 -c '
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 2: pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError: pass
'`)
	hard(job.CPU, 3)(&j.d.Limits)
	j.run()
	j.limited("h_cpu", 3, 3, 137)
}

// ownReads, in GiB, is what the supervisor reads itself of its account, which may count with
// a job that lives.
const ownReads = 4096.0 / (1 << 30)

// TestOnlineUsage checks that the usage of a job can be read while it runs.
func TestOnlineUsage(t *testing.T) {
	for by, m := range allMeans {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			j := usesMore(t, m, "burn 2", func(*job.Limits) {})
			j.write()
			j.start()
			dir, err := jobdir.OpenDir(j.active, admin, alice)
			j.check(err)
			defer dir.Close()
			var o *jobdir.Online
			await(t, "a look at the job", func() bool {
				o, err = dir.Online()
				j.check(err)
				return o != nil && o.CPU > 0.3
			})
			if o.Wallclock < 1 || o.Vmem == 0 || o.MaxVmem < o.Vmem || o.Mem <= 0 || o.IO <= 0 || time.Since(o.At) > deadline {
				t.Errorf("got %+v", *o)
			}
			j.signal(unix.SIGTSTP)
			j.wait()
			if u := j.usage(); u == nil || u.CPU < o.CPU || u.Mem < o.Mem || u.IO < o.IO-ownReads {
				t.Errorf("at the end %+v, before it was %+v", u, *o)
			}
		})
	}
}
