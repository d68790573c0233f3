package shepherd

import (
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
		"a word that is not a signal counts as none": {func(d *job.Description) { d.SuspendMethod = "FOO" }, func(j *counted) {
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
				ofQueue := job.Unlimited()
				ofQueue[job.Core] = job.Limit{Soft: 0, Hard: 1 << 20}
				j.d.ProcedureLimits = &ofQueue // a method is one of the queue's
				j.d.Limits[job.Core] = job.Limit{Soft: 1 << 10, Hard: 1 << 10}
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

// TestMethodOutlivesTheJob checks that the supervisor waits, within bounds, for a method that runs
// longer than the job.
func TestMethodOutlivesTheJob(t *testing.T) {
	for by, m := range allMeans {
		t.Run("a method that ends, "+by, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			killed, release := j.fifo("killed"), j.fifo("release")
			j.d.TerminateMethod = j.script("method", "kill -KILL $1; echo killed >"+killed.path+"; read x <"+release.path+"; echo method >>"+j.log) + " $job_pid"
			j.d.Epilog = j.script("epilog", "echo epilog >>"+j.log)
			j.hold(m)
			j.begin()
			j.signal(unix.SIGTSTP)
			killed.expect("killed")
			j.traced("terminate_method still runs")
			release.say("go")
			j.wait()
			j.expect(0)
			j.expectUsage(137, 9)
			if got, want := j.logged(), []string{"method", "epilog"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
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
	t.Run("a method that hangs, with a job whose processes may continue", func(t *testing.T) {
		t.Parallel()
		j := count(t, best())
		j.d.AddGroupKill, j.d.ScriptTimeout = false, 200*time.Millisecond
		j.d.Command.File = j.script("script", "setsid "+j.counter("session")+" &\nexec "+j.counter("job"))
		j.d.TerminateMethod = j.script("method", "kill -KILL $1; setsid sleep 1000 & sleep 1000") + " $job_pid"
		j.begin("job", "session")
		j.signal(unix.SIGTSTP)
		j.wait()
		j.expect(0)
		if pids := j.processes(); !slices.Equal(pids, []int{j.pids["session"]}) {
			t.Errorf("processes %v are left, want only %d", pids, j.pids["session"])
		}
	})
}
