package shepherd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// counted is a job of processes that tell of each signal they are sent.
type counted struct {
	*testJob
	told *fifo
	pids map[string]int
}

// count is a job of one process with the label "job".
func count(t *testing.T, m mode) *counted {
	t.Helper()
	c := &counted{testJob: newJob(t, m, ""), pids: map[string]int{}}
	c.told = c.fifo("told")
	c.d.Command.File = c.script("script", "exec "+c.counter("job"))
	return c
}

func (c *counted) counter(label string) string {
	return base + "/bin/counter " + c.told.path + " " + label
}

// begin starts the shepherd and waits for the processes.
func (c *counted) begin(labels ...string) {
	c.t.Helper()
	c.write()
	c.start()
	c.awaitReady(labels...)
}

func (c *counted) awaitReady(labels ...string) {
	c.t.Helper()
	if len(labels) == 0 {
		labels = []string{"job"}
	}
	for range labels {
		f := strings.Fields(c.told.line())
		if len(f) != 3 || f[1] != "ready" {
			c.t.Fatalf("%q instead of a process that is ready", f)
		}
		c.pids[f[0]], _ = strconv.Atoi(f[2])
	}
	for _, l := range labels {
		if c.pids[l] == 0 {
			c.t.Fatalf("no process %s among %v", l, c.pids)
		}
	}
}

// hears waits for the signals that the process "job" tells of next.
func (c *counted) hears(signals ...syscall.Signal) {
	c.t.Helper()
	for _, sig := range signals {
		c.told.expect("job " + strconv.Itoa(int(sig)))
	}
}

// quit has the processes end by themselves.
func (c *counted) quit() {
	c.t.Helper()
	c.order(unix.SIGQUIT)
	c.wait()
}

func (c *counted) awaitStopped(yes bool) {
	c.t.Helper()
	for label, pid := range c.pids {
		await(c.t, fmt.Sprintf("%s to be stopped: %v", label, yes), func() bool { return stopped(pid) == yes })
	}
}

// TestStandIns is what each signal to the shepherd means to the job.
func TestStandIns(t *testing.T) {
	for name, c := range map[string]struct {
		send   syscall.Signal
		number int            // in the file signal
		heard  syscall.Signal // by the job
		stops  bool
		kills  bool
	}{
		"TSTP is KILL":               {send: unix.SIGTSTP, kills: true},
		"TERM is KILL":               {send: unix.SIGTERM, kills: true},
		"TTOU is KILL without -ckpt": {send: unix.SIGTTOU, kills: true},
		"WINCH is STOP":              {send: unix.SIGWINCH, stops: true},
		"CONT is CONT":               {send: unix.SIGCONT, heard: unix.SIGCONT},
		"USR1 is USR1":               {send: unix.SIGUSR1, heard: unix.SIGUSR1},
		"USR2 is XCPU":               {send: unix.SIGUSR2, heard: unix.SIGXCPU},
		"TTIN and 9 is KILL":         {send: unix.SIGTTIN, number: 9, kills: true},
		"TTIN and 19 is STOP":        {send: unix.SIGTTIN, number: 19, stops: true},
		"TTIN and 18 is CONT":        {send: unix.SIGTTIN, number: 18, heard: unix.SIGCONT},
		"TTIN and 1 is HUP":          {send: unix.SIGTTIN, number: 1, heard: unix.SIGHUP},
		"TTIN and 15 is TERM":        {send: unix.SIGTTIN, number: 15, heard: unix.SIGTERM},
		"TTIN and 24 is XCPU":        {send: unix.SIGTTIN, number: 24, heard: unix.SIGXCPU},
		"TTIN and 35 is real-time":   {send: unix.SIGTTIN, number: 35, heard: 35},
		"TTIN and 64 is the last":    {send: unix.SIGTTIN, number: 64, heard: 64},
		"TTIN and 65 is none":        {send: unix.SIGTTIN, number: 65},
		"TTIN and 0 is none":         {send: unix.SIGTTIN, number: -1},
		"TTIN without a file":        {send: unix.SIGTTIN},
		"HUP is for no job":          {send: unix.SIGHUP},
		"INT is for no job":          {send: unix.SIGINT},
		"QUIT is for no job":         {send: unix.SIGQUIT},
		"PIPE is for no job":         {send: unix.SIGPIPE},
	} {
		for _, m := range []mode{asRoot, asAdmin, asUser} {
			t.Run(name+" "+string(m), func(t *testing.T) {
				t.Parallel()
				j := count(t, m)
				j.begin()
				if c.number != 0 {
					j.check(os.WriteFile(j.active+"/signal", []byte(strconv.Itoa(max(c.number, 0))+"\n"), 0o644))
				}
				j.signal(c.send)
				switch {
				case c.kills:
					j.wait()
					j.expect(0)
					j.expectUsage(137, 9)
					return
				case c.stops:
					j.awaitStopped(true)
					j.signal(unix.SIGCONT)
					j.awaitStopped(false)
					j.hears(unix.SIGCONT)
				case c.heard != 0:
					j.hears(c.heard)
				}
				// Nothing else was delivered before this.
				j.order(42)
				j.hears(42)
				j.quit()
				j.expect(0)
				j.expectUsage(0, 0)
			})
		}
	}
}

// TestEveryProcessHearsOnce sends real-time signals, which the kernel queues: a
// process that is sent one twice sees it twice.
func TestEveryProcessHearsOnce(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := count(t, m)
		labels := []string{"job", "group", "session", "orphan", "daemon", "deep"}
		j.d.Command.File = j.script("script", strings.Join([]string{
			j.counter("group") + " &",
			"setsid " + j.counter("session") + " &",
			"(" + j.counter("orphan") + " &)",
			"setsid sh -c '" + j.counter("daemon") + " & exit 0'",
			"setsid sh -c 'setsid sh -c \"" + j.counter("deep") + " & exit 0\" & exit 0'",
			// The shells in between go by themselves, or would be killed.
			"exec " + j.counter("job"),
		}, "\n"))
		j.begin(labels...)
		await(t, "the shells to be gone", func() bool { return len(j.processes()) == len(labels) })
		got := map[string]int{}
		for _, sig := range []syscall.Signal{40, 41, 42} {
			j.order(sig)
			for range labels {
				got[j.told.line()]++
			}
		}
		for _, l := range labels {
			for _, sig := range []int{40, 41, 42} {
				if n := got[fmt.Sprint(l, " ", sig)]; n != 1 {
					t.Errorf("%s was sent signal %d %d times", l, sig, n)
				}
			}
		}
		j.order(unix.SIGSTOP)
		j.awaitStopped(true)
		j.signal(unix.SIGCONT)
		j.awaitStopped(false)
		j.signal(unix.SIGTSTP)
		j.wait()
		j.expectUsage(137, 9)
		j.nothingLeft()
	})
}

// TestHandlersAreLeftAlone has a job start a program in answer to a signal: the
// program came after the signal and must not be sent it as well.
func TestHandlersAreLeftAlone(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "")
	f := j.fifo("handled")
	j.d.Command.File = j.script("script", "exec "+base+"/bin/handler "+f.path)
	j.write()
	j.start()
	f.expect("ready")
	for range 50 {
		j.signal(unix.SIGUSR1)
		f.expect("fine")
	}
	j.signal(unix.SIGTSTP)
	j.wait()
}

// TestWithoutAddGroupKill is ENABLE_ADDGRP_KILL=false: signals and the end are
// for the process group only.
func TestWithoutAddGroupKill(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := count(t, m)
		j.d.AddGroupKill = false
		j.d.Command.File = j.script("script", strings.Join([]string{
			j.counter("group") + " &", "setsid " + j.counter("session") + " &", "exec " + j.counter("job"),
		}, "\n"))
		j.begin("job", "group", "session")
		j.order(40)
		got := []string{j.told.line(), j.told.line()}
		slices.Sort(got)
		if want := []string{"group 40", "job 40"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		j.signal(unix.SIGTSTP)
		j.wait()
		j.expectUsage(137, 9)
		if pids := j.processes(); !slices.Equal(pids, []int{j.pids["session"]}) {
			t.Errorf("processes %v are left, want only %d", pids, j.pids["session"])
		}
	})
}

func TestNotify(t *testing.T) {
	const long = time.Hour
	const short = 300 * time.Millisecond
	for name, c := range map[string]struct {
		notify time.Duration
		edit   func(d *job.Description)
		test   func(j *counted)
		signal int // that ends the job; 0 for none
	}{
		"KILL is announced by USR2": {short, nil, func(j *counted) {
			begin := time.Now()
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if d := time.Since(begin); d < short {
				j.t.Errorf("it ended after %v", d)
			}
		}, 9},
		"STOP is announced by USR1": {short, nil, func(j *counted) {
			begin := time.Now()
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.awaitStopped(true)
			if d := time.Since(begin); d < short {
				j.t.Errorf("it was stopped after %v", d)
			}
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.quit()
		}, 0},
		"repeated requests are announced once": {long, nil, func(j *counted) {
			for range 3 {
				j.signal(unix.SIGTSTP)
			}
			j.hears(unix.SIGUSR2)
			for range 3 {
				j.order(unix.SIGSTOP) // nor is a stop that would come too late
			}
			j.order(42)
			j.hears(42)
			j.order(unix.SIGQUIT)
			j.wait()
		}, 0},
		"a stop is announced once": {long, nil, func(j *counted) {
			for range 3 {
				j.signal(unix.SIGWINCH)
			}
			j.hears(unix.SIGUSR1)
			j.order(42)
			j.hears(42)
			j.quit()
		}, 0},
		"CONT takes a stop back": {long, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.order(unix.SIGSTOP) // is a new one
			j.hears(unix.SIGUSR1)
			j.quit()
		}, 0},
		"a stop that was taken back does not come": {short, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.traced("asked to resume")
			// A whole period later, as told by a request that takes one.
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if strings.Contains(j.file("trace"), "signal SIGSTOP") {
				j.t.Error("it was stopped")
			}
		}, 9},
		"KILL while a stop is pending": {short, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if strings.Contains(j.file("trace"), "signal SIGSTOP") {
				j.t.Error("it was stopped")
			}
		}, 9},
		"other signals are not announced": {long, nil, func(j *counted) {
			j.signal(unix.SIGUSR1)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.order(unix.SIGTERM)
			j.hears(unix.SIGTERM)
			j.quit()
		}, 0},
		"NOTIFY_KILL names a signal": {short, func(d *job.Description) {
			d.NotifyKill = job.Notification{Kind: job.NotifySignal, Signal: "TERM"}
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGTERM)
			j.wait()
		}, 9},
		"NOTIFY_SUSP names a signal": {short, func(d *job.Description) {
			d.NotifySusp = job.Notification{Kind: job.NotifySignal, Signal: "SIGHUP"}
		}, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGHUP)
			j.awaitStopped(true)
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
		"NOTIFY_KILL is none": {long, func(d *job.Description) {
			d.NotifyKill = job.Notification{Kind: job.NotifyNone}
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
		"NOTIFY_SUSP is none": {long, func(d *job.Description) {
			d.NotifySusp = job.Notification{Kind: job.NotifyNone}
		}, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.quit()
		}, 0},
		"the method comes after the notification": {short, func(d *job.Description) {
			d.TerminateMethod = "SIGQUIT"
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2, unix.SIGQUIT)
			j.wait()
		}, 0},
		"without -notify there is none": {0, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			j.d.Notify = c.notify
			if c.edit != nil {
				c.edit(j.d)
			}
			j.begin()
			c.test(j)
			if c.signal == 0 {
				j.expectUsage(0, 0)
			} else {
				j.expectUsage(128+c.signal, c.signal)
			}
			j.expect(0)
			for len(j.told.f.Name()) != 0 && j.moreLines() {
				// What came last and was not asked for above.
			}
		})
	}
}

// moreLines fails for a signal that nobody has waited for.
func (c *counted) moreLines() bool {
	_ = c.told.f.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	s, err := c.told.r.ReadString('\n')
	if err != nil {
		return false
	}
	if !strings.HasSuffix(s, " 3\n") { // SIGQUIT, which ends the counter
		c.t.Errorf("also told of: %q", s)
	}
	return true
}

func TestMethodsAsSignals(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(d *job.Description)
		test func(j *counted)
	}{
		"suspend_method": {func(d *job.Description) { d.SuspendMethod = "SIGTSTP" }, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGTSTP)
			j.quit()
		}},
		"resume_method": {func(d *job.Description) { d.ResumeMethod = "hup" }, func(j *counted) {
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGHUP)
			j.quit()
		}},
		"terminate_method, by number": {func(d *job.Description) { d.TerminateMethod = "15" }, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGTERM)
			j.quit()
		}},
		"a terminate_method that does not kill is not repeated at once": {
			func(d *job.Description) { d.TerminateMethod = "SIGTERM" },
			func(j *counted) {
				j.signal(unix.SIGTSTP)
				j.hears(unix.SIGTERM)
				j.signal(unix.SIGTSTP)
				j.order(unix.SIGKILL)
				j.order(42)
				j.hears(42)
				j.quit()
			},
		},
		"a word that is no signal counts as none": {func(d *job.Description) { d.SuspendMethod = "FOO" }, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.quit()
		}},
		"a suspended job hears its terminate_method": {func(d *job.Description) { d.TerminateMethod = "SIGQUIT" }, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGTSTP)
			j.wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			c.edit(j.d)
			j.begin()
			c.test(j)
			j.expect(0)
			j.expectUsage(0, 0)
		})
	}
}

// TestMethodsAsCommands looks at what a method is started with.
func TestMethodsAsCommands(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		for _, method := range []string{"suspend", "resume", "terminate"} {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				j := count(t, m)
				j.d.Name, j.d.ID.Task = "a name; touch $HOME/hacked 'x'", 5
				j.setenv("MINE=mine", "LD_NOTHING=kept")
				j.d.Limits[job.Core] = job.Limit{Soft: 0, Hard: 1 << 20}
				line := base + "/bin/command $job_pid $job_id $ja_task_id $job_owner $job_name $queue $host $sge_cell ${MINE} >seen.tmp; ulimit -c >limit; mv seen.tmp seen"
				*map[string]*string{"suspend": &j.d.SuspendMethod, "resume": &j.d.ResumeMethod, "terminate": &j.d.TerminateMethod}[method] = line
				j.begin()
				j.signal(map[string]syscall.Signal{"suspend": unix.SIGWINCH, "resume": unix.SIGCONT, "terminate": unix.SIGTSTP}[method])
				await(t, "the method to have run", func() bool { return j.output("seen") != "" })
				r := j.report("seen")
				id := strconv.Itoa(j.d.ID.Job)
				want := []string{base + "/bin/command", strconv.Itoa(j.pids["job"]), id, "5", j.d.Owner, j.d.Name, "all.q", "node1", "default", "mine"}
				if got := r.args(); !slices.Equal(got, want) {
					t.Errorf("arguments %q\nwant %q", got, want)
				}
				_, uid, _ := owner()
				if r.Uids != [3]int{uid, uid, uid} {
					t.Errorf("user ids %v", r.Uids)
				}
				if m != asUser && !slices.Contains(r.Groups, j.d.AddGroupID) {
					t.Errorf("groups %v lack %d", r.Groups, j.d.AddGroupID)
				}
				if r.Cwd != j.work || r.StdinPath != "/dev/null" || r.Umask != 0o22 || r.Pgid == j.pids["job"] || r.Blocked+r.Ignored != strings.Repeat("0", 32) {
					t.Errorf("it runs as %+v", r)
				}
				if !slices.Equal(r.Fds, []string{"0", "1", "2"}) {
					t.Errorf("descriptors %v", r.Fds)
				}
				if v, _ := r.env(t, "LD_NOTHING"); v != "kept" {
					t.Error("the environment is not the job's")
				}
				if got := j.output("limit"); got != "0\n" {
					t.Errorf("core file limit %q", got)
				}
				if _, err := os.Stat(j.work + "/hacked"); err == nil {
					t.Error("the name of the job was executed")
				}
				if method == "terminate" {
					if !alive(j.pids["job"]) {
						t.Error("the job was killed, though its method did not")
					}
				}
				j.quit()
				j.expect(0)
			})
		}
	})
}

func TestMethodsDoNotPileUp(t *testing.T) {
	t.Parallel()
	j := count(t, best())
	started, release := j.fifo("started"), j.fifo("release")
	j.d.SuspendMethod = j.script("method", "echo started >"+started.path+"; read x <"+release.path)
	j.begin()
	j.order(unix.SIGSTOP)
	started.expect("started")
	j.order(unix.SIGSTOP)
	j.traced("still running")
	started.silent()
	release.say("go")
	j.traced("suspend_method ended")
	j.order(unix.SIGSTOP)
	started.expect("started")
	release.say("go")
	j.quit()
	j.expect(0)
}

// TestMethodOutlivesTheJob is waited for, within bounds.
func TestMethodOutlivesTheJob(t *testing.T) {
	t.Run("a method that ends", func(t *testing.T) {
		t.Parallel()
		j := count(t, best())
		killed, release := j.fifo("killed"), j.fifo("release")
		j.d.TerminateMethod = j.script("method", "kill -KILL $1; echo killed >"+killed.path+"; read x <"+release.path+"; echo method >>"+j.log) + " $job_pid"
		j.d.Epilog = j.script("epilog", "echo epilog >>"+j.log)
		j.begin()
		j.signal(unix.SIGTSTP)
		killed.expect("killed")
		j.traced("epilog ended")
		release.say("go")
		j.wait()
		j.expect(0)
		j.expectUsage(137, 9)
		if got, want := j.logged(), []string{"epilog", "method"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("a method that hangs", func(t *testing.T) {
		t.Parallel()
		j := count(t, best())
		j.d.ScriptTimeout = 200 * time.Millisecond
		j.d.TerminateMethod = j.script("method", "kill -KILL $1; trap '' TERM; sleep 1000 & sleep 1000; sleep 1000") + " $job_pid"
		j.begin()
		j.signal(unix.SIGTSTP)
		j.wait()
		j.expect(0)
		j.nothingLeft()
	})
}

// TestRequestsBeforeTheJob come while a procedure runs: it is not disturbed.
func TestRequestsBeforeTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		during string // the step that runs when they come
		send   func(j *testJob)
		steps  []string
		job    func(j *counted) // what the job hears, if it is started
	}{
		"KILL during prolog": {
			"prolog", func(j *testJob) { j.signal(unix.SIGTSTP) }, []string{"prolog", "epilog"}, nil,
		},
		"KILL by number during prolog": {
			"prolog", func(j *testJob) { j.order(unix.SIGKILL) }, []string{"prolog", "epilog"}, nil,
		},
		"KILL during pe_start": {
			"pe_start", func(j *testJob) { j.signal(unix.SIGTSTP) }, []string{"prolog", "pe_start", "pe_stop", "epilog"}, nil,
		},
		"a migration during prolog": {
			"prolog", func(j *testJob) { j.signal(unix.SIGTTOU) }, []string{"prolog", "epilog"}, nil,
		},
		"STOP during prolog": {
			"prolog", func(j *testJob) { j.order(unix.SIGSTOP) },
			[]string{"prolog", "pe_start", "pe_stop", "epilog"},
			func(j *counted) {
				// Before its program, even: it has no label yet.
				await(j.t, "the job to be stopped", func() bool {
					pid, _ := strconv.Atoi(strings.TrimSpace(j.file("job_pid")))
					return pid != 0 && stopped(pid)
				})
				j.signal(unix.SIGCONT)
				// The kernel drops a SIGCONT that is pending when the next
				// order, a SIGTTIN, comes.
				j.traced("asked to resume the job")
				j.awaitReady()
				j.quit()
			},
		},
		"STOP and CONT during prolog": {
			"prolog", func(j *testJob) {
				j.order(unix.SIGSTOP)
				j.traced("asked to suspend")
				j.signal(unix.SIGCONT)
			},
			[]string{"prolog", "pe_start", "pe_stop", "epilog"},
			func(j *counted) { j.awaitReady(); j.quit() },
		},
		"KILL during epilog": {
			"epilog", func(j *testJob) { j.signal(unix.SIGTSTP) },
			[]string{"prolog", "pe_start", "pe_stop", "epilog"},
			func(j *counted) { j.awaitReady(); j.order(unix.SIGQUIT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			running, release := j.fifo("running"), j.fifo("release")
			step := func(name string) string {
				text := "echo " + name + " >>" + j.log
				if name == c.during {
					// As a procedure may do that fears the signals of its job.
					text += "\ntrap 'echo signalled >>" + j.log + "' TERM USR1 USR2 TSTP CONT\necho running >" + running.path + "; read x <" + release.path
				}
				return j.script(name, text)
			}
			j.d.PE = &job.ParallelEnvironment{Name: "pe", Start: step("pe_start"), Stop: step("pe_stop"), StdoutPath: j.work, StderrPath: j.work}
			j.d.Prolog, j.d.Epilog = step("prolog"), step("epilog")
			j.write()
			j.start()
			if c.during == "epilog" {
				c.job(j)
			}
			running.expect("running")
			c.send(j.testJob)
			j.traced("asked to")
			release.say("go")
			if c.job != nil && c.during != "epilog" {
				c.job(j)
			}
			j.wait()
			j.expect(0)
			if got := j.logged(); !slices.Equal(got, c.steps) {
				t.Errorf("steps %q, want %q", got, c.steps)
			}
			if (j.usage() != nil) != (c.job != nil) {
				t.Errorf("usage file: %v", j.usage() != nil)
			}
		})
	}
}

// TestScriptTimeout ends a procedure with all that it has started.
func TestScriptTimeout(t *testing.T) {
	const hang = "sleep 1000 & (sleep 1000; :) & setsid sleep 1000 & sleep 1000; sleep 1000"
	for name, c := range map[string]struct {
		script string
		code   job.Failed
		step   string
	}{
		"a prolog that hangs":                   {hang, 8, "prolog"},
		"a prolog that ignores SIGTERM":         {"trap '' TERM; " + hang, 8, "prolog"},
		"a prolog whose children ignore it":     {"sh -c \"trap '' TERM; " + hang + "\"; " + hang, 8, "prolog"},
		"a prolog that answers it with success": {"trap 'exit 0' TERM; sleep 1000 & wait", 8, "prolog"},
		"a pe_start that hangs":                 {hang, 10, "pe_start"},
		"a pe_stop that hangs":                  {hang, 13, "pe_stop"},
		"an epilog that hangs":                  {hang, 15, "epilog"},
		"a prolog that is stopped":              {"kill -STOP $$", 8, "prolog"},
		"a prolog that forks without end":       {"f() { sleep 0.01 & f & }; trap '' TERM; f; while :; do sleep 0.01 & done", 8, "prolog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "echo job >>$LOG")
			j.d.ScriptTimeout = 200 * time.Millisecond
			if strings.Contains(name, "forks") {
				c.script = "ulimit -u 300; " + c.script
				if j.mode == asRoot {
					j.d.Limits[job.MaxProc] = job.Limit{Soft: 300, Hard: 300}
				}
				c.script = "i=0; trap '' TERM; while :; do sleep 0.05 & i=$((i+1)); [ $i -gt 50 ] && wait && i=0; done"
			}
			path := j.script("procedure", c.script)
			j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work, StderrPath: j.work}
			*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[c.step] = path
			j.run()
			j.expect(c.code)
			j.expectError("script_timeout")
			ran := j.logged()[0] == "job"
			if want := c.step == "pe_stop" || c.step == "epilog"; ran != want {
				t.Errorf("the job ran: %v", ran)
			}
			j.nothingLeft()
		})
	}
}
