package shepherd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/quantity"
)

// requests are the signals of a daemon that make the shepherd run a method command.
var requests = map[string]syscall.Signal{
	"suspend_method": unix.SIGWINCH, "resume_method": unix.SIGCONT, "terminate_method": unix.SIGTSTP, "migr_command": unix.SIGTTOU,
}

// command makes a command line the method with a name.
func (j *testJob) command(name, line string) {
	j.t.Helper()
	if name == "migr_command" {
		j.d.Ckpt = &job.Checkpoint{Name: "obj", Interface: "application-level", When: "mx", MigrationCommand: line}
		return
	}
	*map[string]*string{
		"suspend_method": &j.d.SuspendMethod, "resume_method": &j.d.ResumeMethod, "terminate_method": &j.d.TerminateMethod,
	}[name] = line
}

// isIn reports whether a process is in the job's control group, in each hierarchy.
func (j *testJob) isIn(pid int) bool {
	return !slices.ContainsFunc(j.group.Dirs, func(dir string) bool {
		text, err := os.ReadFile(filepath.Join(dir, group.Procs))
		return err != nil || !slices.Contains(strings.Fields(string(text)), strconv.Itoa(pid))
	})
}

// needs skips the test, or fails it, if the group of the job has none of some files: see testenv.Require.
func (j *testJob) needs(need testenv.Need, files ...group.File) {
	j.t.Helper()
	if !slices.ContainsFunc(files, func(f group.File) bool { return j.group.File[f] != "" }) {
		testenv.Require(j.t, need)
		j.t.Fatalf("this machine has %s, but the group of the job has none of %v", need, files)
	}
}

func (j *testJob) needsFreezer() {
	j.t.Helper()
	j.needs(testenv.Freezer, group.CgroupFreeze, group.FreezerState)
}

// TestMethodsAreInTheGroup runs a program of the user in a method: the method finds it in the PATH of the job. The
// method and what the program leaves running must be in the control group of the job, and end with the job.
func TestMethodsAreInTheGroup(t *testing.T) {
	for name, sig := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			left, method, release := j.fifo("left"), j.fifo("running"), j.fifo("release")
			j.script("date", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &\necho $! >"+left.path)
			j.d.Environment[0] = "PATH=" + j.top + ":/bin:/usr/bin"
			j.command(name, j.script("method", "date; echo $$ >"+method.path+"; read x <"+release.path))
			j.hold(byGroup)
			j.begin()
			j.signal(sig)
			for what, f := range map[string]*fifo{"a process of the user": left, "the method": method} {
				pid, err := strconv.Atoi(f.line())
				j.check(err)
				if !j.isIn(pid) {
					t.Errorf("%s is not in the group of the job", what)
				}
			}
			release.say("go")
			j.traced(name + " ended")
			j.quit()
			j.expect(0)
			j.nothingLeft()
		})
	}
}

// TestMethodsCount checks that the limits of the job apply to what its methods use.
func TestMethodsCount(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		payload string
		limit   func(l *job.Limits)
		value   float64
	}{
		"h_cpu":  {"burn 1", hard(job.CPU, 2), 2},
		"h_vmem": {"hold 1 400", hard(job.Vmem, 200*mib), 200 * mib},
	} {
		for by, m := range allMeans {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, best(), "exec sleep 1000")
				j.d.SuspendMethod = j.script("method", base+"/bin/payload "+c.payload)
				j.d.VmemLimit = job.VmemMemory
				j.d.ScriptTimeout = time.Second // after which a method without a job ends
				c.limit(&j.d.Limits)
				j.hold(m)
				j.write()
				j.start()
				j.traced("job starts")
				j.signal(unix.SIGWINCH)
				j.wait()
				j.limited(name, c.value, c.value, 137)
				j.nothingLeft()
			})
		}
	}
}

// TestMethodsOfAFrozenJob checks that the commands for a suspended job run, although its group is frozen.
func TestMethodsOfAFrozenJob(t *testing.T) {
	for name, do := range map[string]string{
		"resume_method": "kill -CONT $1", "terminate_method": "kill -KILL $1", "migr_command": "kill -KILL $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			j.command(name, j.script("method", "sh -c 'exit 0' && "+do+"; echo method >>"+j.log)+" $job_pid")
			j.hold(byGroup)
			j.needsFreezer()
			j.begin()
			j.order(unix.SIGSTOP)
			open, err := group.Open(j.group)
			j.check(err)
			defer open.Close()
			await(t, "the job to be frozen", func() bool { frozen, err := open.Frozen(); return err == nil && frozen })
			j.signal(requests[name])
			if name == "resume_method" {
				j.traced("resume_method ended")
				j.quit()
			} else {
				j.wait()
				j.expectUsage(137, 9)
			}
			if got := j.logged(); !slices.Equal(got, []string{"method"}) {
				t.Errorf("ran %q, want the method", got)
			}
		})
	}
}

// TestSuspendedAfterCommand checks that a suspended job whose migration has failed is frozen again.
func TestSuspendedAfterCommand(t *testing.T) {
	t.Parallel()
	j := count(t, best())
	j.command("migr_command", "exit 1")
	j.hold(byGroup)
	j.needsFreezer()
	j.begin()
	j.order(unix.SIGSTOP)
	j.traced("signal SIGSTOP")
	j.signal(unix.SIGTTOU)
	j.traced("migr_command ended")
	open, err := group.Open(j.group)
	j.check(err)
	defer open.Close()
	await(t, "the job to be frozen", func() bool { frozen, err := open.Frozen(); return err == nil && frozen })
	j.signal(unix.SIGCONT)
	j.traced("signal SIGCONT")
	j.quit()
	j.expect(0)
}

// TestTerminateMethodStopped checks that a job ends if its terminate method could not do its work: the owner of the job
// can cause this.
func TestTerminateMethodStopped(t *testing.T) {
	for by, m := range allMeans {
		t.Run("killed "+by, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			j.d.TerminateMethod = "/bin/kill -KILL $$"
			j.hold(m)
			j.begin()
			j.signal(unix.SIGTSTP)
			j.wait()
			j.expectUsage(137, 9)
		})
	}
	t.Run("without a free process", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, best(), "")
		ready := j.fifo("ready")
		j.d.Command.File = j.script("script", "for i in 1 2 3 4 5 6; do sleep 1000 & done; echo ready >"+ready.path+"; wait")
		j.d.TerminateMethod = j.script("method", "/bin/true; kill -KILL $1") + " $job_pid"
		j.threads = 7
		j.hold(byGroup)
		j.needs(testenv.Pids, group.PidsMax)
		j.write()
		j.start()
		ready.expect("ready")
		j.signal(unix.SIGTSTP)
		j.wait()
		j.expectUsage(137, 9)
		j.nothingLeft()
	})
	t.Run("without free memory", func(t *testing.T) {
		t.Parallel()
		const mib = 1 << 20
		j := newJob(t, best(), "exec sleep 1000")
		j.d.Limits[job.Vmem] = job.Limit{Soft: quantity.Infinity, Hard: 100 * mib}
		j.d.VmemLimit = job.VmemMemory
		j.d.ScriptTimeout = time.Second // after which a method without a job ends
		j.d.TerminateMethod = j.script("method", base+"/bin/payload hold 1 400; sleep 1000")
		j.hold(byGroup)
		j.write()
		j.start()
		j.traced("job starts")
		j.signal(unix.SIGTSTP)
		j.wait()
		j.limited("h_vmem", 100*mib, 100*mib, 137)
		j.nothingLeft()
	})
}

// TestNothingOfMethodsIsLeft checks that no process that a method has started survives, if the method ends after the
// job, and that none exists when the next step begins.
func TestNothingOfMethodsIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"a child in a session of its own": "setsid sleep 1000 </dev/null >/dev/null 2>&1 &",
		"a daemon":                        "(setsid sh -c 'sleep 1000 & exit' &)",
		"one for each that ends":          "setsid sh -c 'while :; do (setsid sleep 1000 &); sleep 0.01; done' &",
	} {
		for by, m := range allMeans {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				j := count(t, best())
				running, release := j.fifo("running"), j.fifo("release")
				j.d.SuspendMethod = j.script("method", script+"\necho running >"+running.path+"; read x <"+release.path)
				j.d.Epilog = j.script("epilog", "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx JOB_ID=$JOB_ID && cat $p/comm; done >>"+j.log+" 2>/dev/null; exit 0")
				j.hold(m)
				j.begin()
				j.signal(unix.SIGWINCH)
				running.expect("running")
				j.order(unix.SIGQUIT)
				j.traced("suspend_method still runs")
				release.say("go")
				j.wait()
				j.expect(0)
				j.nothingLeft()
				if slices.Contains(j.logged(), "sleep") {
					t.Error("the epilog saw a process of the method")
				}
			})
		}
	}
}
