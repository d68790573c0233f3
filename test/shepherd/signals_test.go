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

// counted is a job of processes that report each signal they receive.
type counted struct {
	*testJob
	told *fifo
	pids map[string]int
}

// count returns a job of one process with the label "job".
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

// hears waits for the next signals that the process "job" reports.
func (c *counted) hears(signals ...syscall.Signal) {
	c.t.Helper()
	for _, sig := range signals {
		c.told.expect("job " + strconv.Itoa(int(sig)))
	}
}

// quit makes the processes exit.
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

// TestStandIns checks the effect on the job of each signal to the shepherd.
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

// TestHandlersAreLeftAlone runs a job that starts a program in answer to a signal. The program
// started after the signal and must not receive it as well.
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

// TestWithoutAddGroupKill sets ENABLE_ADDGRP_KILL=false: signals and the end of the job affect the
// process group only.
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

// TestUnwantedProcedures checks that a procedure that prepares a job is ended if the job is to end,
// the procedure runs as the owner of the job, and it does not end soon. This is not a failure, and the
// procedures after it run.
func TestUnwantedProcedures(t *testing.T) {
	for name, c := range map[string]struct {
		step, text string
		steps      []string
	}{
		"a prolog that waits for the user": {"prolog", "read x <", []string{"prolog", "epilog"}},
		"one that ignores SIGTERM":         {"prolog", "trap '' TERM; read x <", []string{"prolog", "epilog"}},
		"one that is stopped":              {"prolog", "kill -STOP $$; : ", []string{"prolog", "epilog"}},
		"one that ends with an error":      {"prolog", "trap 'exit 100' TERM; sleep 1000 & wait; : ", []string{"prolog", "epilog"}},
		"a pe_start":                       {"pe_start", "read x <", []string{"prolog", "pe_start", "pe_stop", "epilog"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "echo job >>$LOG")
			running, never := j.fifo("running"), j.fifo("never")
			step := func(name string) string {
				text := "echo " + name + " >>" + j.log
				if name == c.step {
					text += "\necho running >" + running.path + "; " + c.text + never.path
				}
				return j.script(name, text)
			}
			j.d.PE = &job.ParallelEnvironment{Name: "pe", Start: step("pe_start"), Stop: step("pe_stop"), StdoutPath: j.work, StderrPath: j.work}
			j.d.Prolog, j.d.Epilog = step("prolog"), step("epilog")
			j.write()
			j.start()
			running.expect("running")
			j.signal(unix.SIGTSTP)
			j.wait()
			j.expect(0)
			if got := j.logged(); !slices.Equal(got, c.steps) {
				t.Errorf("ran %q, want %q", got, c.steps)
			}
			j.nothingLeft()
		})
	}
}

// TestProceduresOfOthersAreFinished checks that a request to end the job does not end a procedure of
// another user, because the work of the procedure may need completion.
func TestProceduresOfOthersAreFinished(t *testing.T) {
	needRoot(t)
	j := newJob(t, asRoot, "exit 0")
	j.d.ScriptTimeout = 13 * time.Second
	running := j.fifo("running")
	j.d.Prolog = "root@" + j.script("prolog", "echo running >"+running.path+"; sleep 1000")
	j.write()
	j.start()
	running.expect("running")
	j.signal(unix.SIGTSTP)
	j.wait()
	j.expect(job.FailedProlog)
	j.expectError("script_timeout")
}

// TestRequestsBeforeTheJob come while a procedure runs: it is not disturbed if it ends soon.
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
