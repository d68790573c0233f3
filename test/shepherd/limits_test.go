package shepherd

import (
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

const none = quantity.Infinity

// rlimits returns the lines of /proc/PID/limits: soft and hard limit by name.
func rlimits(t *testing.T, text string) map[string][2]string {
	t.Helper()
	m := map[string][2]string{}
	for line := range strings.Lines(text) {
		if len(line) > 46 && strings.HasPrefix(line, "Max ") {
			f := strings.Fields(line[26:])
			m[strings.TrimSpace(line[:26])] = [2]string{f[0], f[1]}
		}
	}
	if len(m) < 10 {
		t.Fatalf("no limits in %q", text)
	}
	return m
}

// TestRlimits checks the limits of the processes of each step. A prolog has the limits of the
// queue, whatever the job has requested, except for the number of processes, which counts all
// processes of the user. The CPU time and memory of the job are watched as a whole: the kernel's
// soft limits would interfere with that, and its hard limit of CPU time is above h_cpu.
func TestRlimits(t *testing.T) {
	const (
		as, cpu, data   = "Max address space", "Max cpu time", "Max data size"
		stack, fsize    = "Max stack size", "Max file size"
		core, rss       = "Max core file size", "Max resident set"
		files, nproc    = "Max open files", "Max processes"
		memlock, flocks = "Max locked memory", "Max file locks"
		jobCPU          = "of the job" // where it differs
		prologAS        = "of the prolog"
	)
	daemons, err := exec.Command("cat", "/proc/self/limits").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(d *job.Description)
		want map[string][2]string
	}{
		"three slots": {func(d *job.Description) {
			d.HostSlots = 3
			d.Limits[job.Vmem] = job.Limit{Soft: none, Hard: 2 << 30}
			d.Limits[job.CPU] = job.Limit{Soft: 50, Hard: 100}
			d.Limits[job.Stack] = job.Limit{Soft: none, Hard: 20 << 20}
			d.Limits[job.Data] = job.Limit{Soft: 1 << 30, Hard: 2 << 30}
			d.Limits[job.Fsize] = job.Limit{Soft: none, Hard: 1 << 30}
			d.Limits[job.Core] = job.Limit{Soft: 1 << 20, Hard: 2 << 20}
			d.Limits[job.RSS] = job.Limit{Soft: none, Hard: 300 << 20}
		}, map[string][2]string{
			as: {"6442450944", "6442450944"}, cpu: {"150", "300"}, jobCPU: {"306", "306"}, stack: {"62914560", "62914560"},
			data: {"3221225472", "6442450944"}, fsize: {"1073741824", "1073741824"}, core: {"1048576", "2097152"},
			rss: {"314572800", "314572800"},
		}},
		"the least there is": {func(d *job.Description) {
			for r := range job.NumResources {
				if r != job.RT {
					d.Limits[r] = job.Limit{Soft: 1, Hard: 1}
				}
			}
			d.Limits[job.Core] = job.Limit{}
		}, map[string][2]string{
			as: {"10485760", "10485760"}, cpu: {"2", "2"}, jobCPU: {"4", "4"}, stack: {"1048576", "1048576"}, data: {"10485760", "10485760"},
			fsize: {"15360", "15360"}, core: {"0", "0"}, rss: {"10485760", "10485760"},
			files: {"100", "100"}, nproc: {"20", "20"}, memlock: {"4096", "4096"}, flocks: {"2", "2"},
		}},
		"execd_params, two slots": {func(d *job.Description) {
			d.HostSlots = 2
			d.Limits[job.Descriptors] = job.Limit{Soft: 50, Hard: 150}
			d.Limits[job.MemoryLocked] = job.Limit{Soft: 8192, Hard: 8192}
		}, map[string][2]string{files: {"200", "300"}, memlock: {"16384", "16384"}}},
		"processes, two slots": {func(d *job.Description) {
			d.HostSlots = 2
			d.Limits[job.MaxProc] = job.Limit{Soft: 1000, Hard: 2000}
		}, map[string][2]string{nproc: {"2000", "4000"}}},
		"a consumable of the whole job": {func(d *job.Description) {
			d.HostSlots = 4
			d.Limits[job.Vmem] = job.Limit{Soft: none, Hard: 2 << 30, HardPerJob: true}
		}, map[string][2]string{as: {"2147483648", "2147483648"}, prologAS: {"8589934592", "8589934592"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, counted := c.want[nproc]
			if counted && !private {
				t.Skip("others count among the processes of this user")
			}
			j := newJob(t, best(), "cat /proc/self/limits")
			c.edit(j.d)
			ofQueue := j.d.Limits
			for r := range ofQueue {
				ofQueue[r].SoftPerJob, ofQueue[r].HardPerJob = false, false // only a job can say so
			}
			j.d.ProcedureLimits = &ofQueue
			if counted {
				// No other processes run as this user.
				j.d.Owner, j.d.Streams[1].Path = "bob", j.top+"/bob/out"
				j.check(unix.Mkdir(j.top+"/bob", 0o755))
				j.check(unix.Chown(j.top+"/bob", bob, bob))
				j.d.Streams[2].Path = j.top + "/bob/err"
				j.work = j.top + "/bob"
			}
			j.d.Prolog = j.script("prolog", "cat /proc/self/limits")
			j.run()
			j.expect(0)
			both := j.output("out")
			for i, text := range []string{both[:len(both)/2], both[len(both)/2:]} {
				got := rlimits(t, text)
				for name, want := range c.want {
					if own, ok := c.want[jobCPU]; ok && i == 1 && name == cpu {
						want = own
					}
					if own, ok := c.want[prologAS]; ok && i == 0 && name == as {
						want = own
					}
					if i == 0 && name == nproc {
						want = rlimits(t, string(daemons))[nproc]
					}
					if name == jobCPU || name == prologAS {
						continue
					}
					if got[name] != want {
						t.Errorf("step %d: %s is %v, want %v", i, name, got[name], want)
					}
				}
			}
		})
	}
	// Neither the job's requests nor its user's resource usage affects a procedure. A directory of
	// sge_execd does not contain the queue's limits.
	for name, known := range map[string]bool{"requests of the job": true, "requests of the job, under a real execd": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "exit 0")
			for r := range job.NumResources {
				if r != job.RT && r != job.Descriptors && r != job.MemoryLocked && r != job.Locks && r != job.MaxProc {
					j.d.Limits[r] = job.Limit{Soft: 1, Hard: 1}
				}
			}
			j.d.Limits[job.Vmem], j.d.Limits[job.Data] = job.Limit{Soft: 1 << 30, Hard: 1 << 30}, job.Limit{Soft: 1 << 30, Hard: 1 << 30}
			j.d.Limits[job.MemoryLocked] = job.Limit{Soft: 8192, Hard: 8192}
			if known {
				l := job.Unlimited()
				l[job.Fsize] = job.Limit{Soft: 1 << 30, Hard: 1 << 30}
				l[job.MemoryLocked] = j.d.Limits[job.MemoryLocked]
				j.d.ProcedureLimits = &l
			}
			j.d.Prolog, j.d.Epilog = j.script("prolog", "cat /proc/self/limits"), j.script("epilog", "cat /proc/self/limits")
			j.d.Limits[job.Fsize] = job.Limit{Soft: 1 << 20, Hard: 1 << 20}
			j.run()
			j.expect(0)
			both := j.output("out")
			for _, text := range []string{both[:len(both)/2], both[len(both)/2:]} {
				got := rlimits(t, text)
				for _, name := range []string{as, cpu, data, stack, fsize, core, rss} {
					want := rlimits(t, string(daemons))[name][1]
					if name == fsize && known {
						want = "1073741824"
					}
					if got[name][1] != want {
						t.Errorf("%s is %v, want %v", name, got[name], want)
					}
				}
				if want := [2]string{"8192", "8192"}; got[memlock] != want {
					t.Errorf("%s is %v, want %v", memlock, got[memlock], want)
				}
			}
		})
	}
	// Limits that are not configured are those with which the shepherd was started, and not the Go
	// runtime's.
	t.Run("nothing but the daemon's", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, best(), "cat /proc/self/limits")
		j.run()
		want := rlimits(t, string(daemons))
		got := rlimits(t, j.output("out"))
		for _, name := range []string{files, nproc, memlock, flocks} {
			if got[name] != want[name] {
				t.Errorf("%s is %v, want %v", name, got[name], want[name])
			}
		}
	})
}

// TestProtectionOfTheDaemon checks that a daemon protected from the OOM killer does not pass this
// protection to its jobs.
func TestProtectionOfTheDaemon(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Guest) // who is root of a container may not protect himself
	for text, want := range map[string]string{"-900": "0", "300": "300"} {
		j := newJob(t, asRoot, "cat /proc/self/oom_score_adj")
		j.d.Prolog = j.script("prolog", "cat /proc/self/oom_score_adj")
		j.change = func(cmd *exec.Cmd) {
			script := "echo " + text + " >/proc/self/oom_score_adj && exec " + cmd.Path
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		}
		j.run()
		j.expect(0)
		if got := j.output("out"); got != want+"\n"+want+"\n" {
			t.Errorf("with %s for the daemon, prolog and job have %q", text, got)
		}
	}
}

// TestLimitsOfAnOrdinaryUser checks that limits are lowered, and that a limit that cannot be raised
// does not fail the job.
func TestLimitsOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	j := newJob(t, asUser, "cat /proc/self/limits")
	j.d.Limits[job.Vmem] = job.Limit{Soft: none, Hard: 1 << 30}
	j.d.Limits[job.Descriptors] = job.Limit{Soft: 65535, Hard: 65535}
	j.d.Limits[job.MemoryLocked] = job.Limit{Soft: 1 << 50, Hard: 1 << 50}
	j.run()
	j.expect(0)
	got := rlimits(t, j.output("out"))
	if got["Max address space"] != [2]string{"1073741824", "1073741824"} {
		t.Errorf("address space %v", got["Max address space"])
	}
	if !strings.Contains(j.file("trace"), "cannot raise RLIMIT_MEMLOCK") {
		t.Errorf("the trace says nothing about %v", got["Max locked memory"])
	}
}

// limited checks that a limit has ended the job.
func (j *testJob) limited(name string, value, atLeast float64, exitStatus int) {
	j.t.Helper()
	j.expect(37)
	j.expectError("limit " + name + " of " + strconv.FormatFloat(value, 'f', -1, 64) + " ")
	j.expectUsage(exitStatus, 0) // a signal would make a real execd report 100
	u := j.usage()
	if u == nil || u.Limit == nil {
		j.t.Errorf("no limit in the usage: %s", j.file("usage"))
		return
	}
	if l := u.Limit; l.Name != name || l.Value != value || l.Measured < atLeast {
		j.t.Errorf("limit %+v, want %s %v and at least %v", *l, name, value, atLeast)
	}
	if !strings.Contains(u.Reason, "limit "+name) {
		j.t.Errorf("reason %q", u.Reason)
	}
}

func TestWallClock(t *testing.T) {
	// Both are long enough for any process to answer, on any machine.
	const rt, grace = 3, 2 * time.Second
	for name, c := range map[string]struct {
		soft, hard uint64
		edit       func(d *job.Description)
		test       func(j *counted)
	}{
		"h_rt ends the job": {none, rt, nil, func(j *counted) {
			j.wait()
			j.limited("h_rt", rt, rt, 137)
			if w := j.usage().Wallclock; w < rt || w > deadline.Seconds() {
				j.t.Errorf("it ran for %v s", w)
			}
		}},
		"h_rt ends a suspended job": {none, 6, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.wait()
			j.limited("h_rt", 6, 6, 137)
		}},
		"h_rt is announced": {none, rt, func(d *job.Description) { d.Notify = grace }, func(j *counted) {
			j.hears(unix.SIGUSR2)
			j.wait()
			j.limited("h_rt", rt, rt, 137)
			if w := j.usage().Wallclock; w < rt+grace.Seconds() {
				j.t.Errorf("it had %v s", w)
			}
		}},
		"h_rt goes through the terminate_method": {none, rt, func(d *job.Description) {
			d.TerminateMethod = "SIGQUIT"
		}, func(j *counted) {
			j.hears(unix.SIGQUIT)
			j.wait()
			j.limited("h_rt", rt, rt, 0)
		}},
		"a terminate_method that does not end it": {none, rt, func(d *job.Description) {
			d.TerminateMethod, d.LimitGrace = "SIGTERM", grace
		}, func(j *counted) {
			j.hears(unix.SIGTERM)
			j.wait()
			j.limited("h_rt", rt, rt, 137)
			if w := j.usage().Wallclock; w < rt+grace.Seconds() {
				j.t.Errorf("the terminate_method had %v s", w)
			}
		}},
		"h_rt right after a request that did not help": {none, 6, func(d *job.Description) {
			d.TerminateMethod, d.LimitGrace = "SIGTERM", grace
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGTERM, unix.SIGTERM)
			j.wait()
			j.limited("h_rt", 6, 6, 137)
		}},
		"s_rt warns and then ends": {rt, none, func(d *job.Description) { d.LimitGrace = grace }, func(j *counted) {
			j.hears(unix.SIGUSR1)
			j.wait()
			j.limited("s_rt", rt, rt+grace.Seconds(), 137)
		}},
		"s_rt warns only, with S_RT_KILL=false": {rt, none, func(d *job.Description) {
			d.LimitGrace, d.SoftRTWarns = 0, true
		}, func(j *counted) {
			j.hears(unix.SIGUSR1)
			j.order(42)
			j.hears(42)
			j.quit()
			j.expect(0)
			j.expectUsage(0, 0)
		}},
		"h_rt comes on time after s_rt": {rt, 8, func(d *job.Description) { d.LimitGrace = time.Hour }, func(j *counted) {
			j.hears(unix.SIGUSR1)
			j.wait()
			j.limited("h_rt", 8, 8, 137)
			if w := j.usage().Wallclock; w > deadline.Seconds() {
				j.t.Errorf("it ran for %v s", w)
			}
		}},
		"s_rt after h_rt says nothing": {100, rt, nil, func(j *counted) {
			j.wait()
			j.limited("h_rt", rt, rt, 137)
		}},
		"a job that ends in time": {100, 200, nil, func(j *counted) {
			j.quit()
			j.expect(0)
			j.expectUsage(0, 0)
			if u := j.usage(); u.Limit != nil || u.Reason != "" {
				j.t.Errorf("limit %v, reason %q", u.Limit, u.Reason)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			j.d.Limits[job.RT] = job.Limit{Soft: c.soft, Hard: c.hard}
			if c.edit != nil {
				c.edit(j.d)
			}
			j.begin()
			c.test(j)
			for j.moreLines() {
			}
			j.nothingLeft()
		})
	}
}

// TestWarningThatEndsTheJob checks that the signal of s_rt is reported as the limit if no handler
// catches it.
func TestWarningThatEndsTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		soft   uint64
		script string
		status int
		limit  bool
	}{
		"the warning":             {3, "exec sleep 1000", 138, true},
		"somebody's SIGUSR1":      {100, "kill -USR1 $$", 138, false},
		"it has a way to take it": {3, "trap 'exit 3' USR1; while :; do sleep 0.1; done", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), c.script)
			j.d.Limits[job.RT] = job.Limit{Soft: c.soft, Hard: none}
			j.run()
			switch {
			case c.limit:
				j.limited("s_rt", 3, 3, c.status)
			case c.status < 128:
				j.expectUsage(c.status, 0)
			default:
				j.expectUsage(c.status, int(unix.SIGUSR1))
			}
		})
	}
}

// TestCPULimit checks that the limit applies to the whole job, whichever of its processes uses the
// time.
func TestCPULimit(t *testing.T) {
	const burn = "while :; do :; done"
	for name, c := range map[string]struct {
		soft, hard uint64
		script     string
		limit      string // empty if no limit is to be blamed
		status     int
		signal     int
	}{
		"h_cpu":                             {none, 2, burn, "h_cpu", 137, 0},
		"s_cpu, and SIGXCPU is not handled": {2, none, burn, "s_cpu", 152, 0},
		"somebody's SIGKILL":                {none, 100, "kill -KILL $$", "", 137, 9},
		"somebody's SIGXCPU":                {100, none, "kill -XCPU $$", "", 152, 24},
		"a child over the limit":            {none, 2, "sh -c '" + burn + "'; exit $?", "h_cpu", 137, 0},
		"the limit of a request to end":     {none, 100, burn, "", 137, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), c.script)
			j.d.Limits[job.CPU] = job.Limit{Soft: c.soft, Hard: c.hard}
			if strings.Contains(name, "request") {
				j.write()
				j.start()
				j.traced("job starts")
				j.signal(unix.SIGTSTP)
				j.wait()
			} else {
				j.run()
			}
			if c.limit == "" {
				j.expect(0)
				j.expectUsage(c.status, c.signal)
				return
			}
			j.limited(c.limit, 2, 2, c.status)
			if u := j.usage(); u.CPU < 1 || math.Abs(u.UserTime+u.SystemTime-u.CPU) > 1e-5 {
				t.Errorf("usage says %v s of CPU time, %v + %v", u.CPU, u.UserTime, u.SystemTime)
			}
		})
	}
}

// TestUsage compares the reported usage with the real one, including processes that are not
// children of the job's processes when they exit.
func TestUsage(t *testing.T) {
	t.Parallel()
	spin := "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
	j := newJob(t, best(), fmt.Sprintf("(setsid sh -c '%s; echo done >%s' &); read x <%s", spin, "$DONE", "$DONE"))
	done := j.fifo("done")
	j.setenv("DONE=" + done.path)
	j.d.Prolog = j.script("prolog", spin)
	before := time.Now().Truncate(time.Second)
	j.run()
	j.expect(0)
	u := j.usage()
	if u == nil || u.CPU <= 0.01 || u.MaxRSS < 500<<10 || u.MinorFaults == 0 || u.Wallclock <= 0 {
		t.Fatalf("usage %+v", u)
	}
	if u.Start.Before(before) || u.End.Before(u.Start) || u.End.After(time.Now()) {
		t.Errorf("it ran from %v to %v", u.Start, u.End)
	}
	if s := u.WaitStatus; s != 1 {
		t.Errorf("wait_status %d, want 1", s)
	}
}
