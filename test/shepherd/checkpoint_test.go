package shepherd

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// commanded lists the interfaces of checkpoint(5) that act through commands, signalled those that
// act through signals.
var (
	commanded = []string{"hibernator", "cpr", "application-level"}
	signalled = []string{"transparent", "userdefined"}
)

// checkpointed returns the content of the file checkpointed; ok reports whether it exists.
func (j *testJob) checkpointed() (content string, ok bool) {
	_, err := os.Stat(j.active + "/checkpointed")
	return j.file("checkpointed"), err == nil
}

func (j *testJob) expectMigration(want bool, content string) {
	j.t.Helper()
	if got, ok := j.checkpointed(); ok != want || got != content {
		j.t.Errorf("the file checkpointed is there: %v, with %q; want %v, %q", ok, got, want, content)
	}
}

// ckpt returns a counted job with a checkpoint object whose commands write their names to the log.
func ckpt(t *testing.T, m mode, iface string) *counted {
	t.Helper()
	j := count(t, m)
	say := func(name string) string { return "/bin/echo " + name + " $job_pid $ckpt_dir >>$LOG" }
	j.d.Ckpt = &job.Checkpoint{
		Name: "obj", Interface: iface, Dir: "/ckpt/dir", When: "mx",
		Command: say("checkpoint"), CleanCommand: say("clean"), RestartCommand: say("restart"),
	}
	return j
}

// TestCheckpointInterval checks the actions after each interval.
func TestCheckpointInterval(t *testing.T) {
	const interval = 100 * time.Millisecond
	const later = 2 * time.Second // than any job has set up its handlers, on any machine
	for _, iface := range slices.Concat(commanded, signalled) {
		t.Run(iface, func(t *testing.T) {
			t.Parallel()
			j := ckpt(t, best(), iface)
			j.d.Ckpt.Interval, j.d.Ckpt.Signal = interval, "SIGUSR2"
			if slices.Contains(signalled, iface) {
				j.d.Ckpt.Interval = later
			}
			j.begin()
			if slices.Contains(signalled, iface) {
				j.hears(unix.SIGUSR2, unix.SIGUSR2)
				j.order(unix.SIGQUIT)
				j.wait()
				if got := j.logged(); got[0] != "" {
					t.Errorf("commands ran: %q", got)
				}
			} else {
				await(t, "two checkpoints", func() bool { return len(j.logged()) >= 2 })
				j.quit()
				log := j.logged()
				if want := "checkpoint " + strconv.Itoa(j.pids["job"]) + " /ckpt/dir"; log[0] != want {
					t.Errorf("%q, want %q", log[0], want)
				}
				if last := log[len(log)-1]; !strings.HasPrefix(last, "clean ") {
					t.Errorf("last came %q", last)
				}
				for j.moreLines() {
				}
			}
			j.expect(0)
			j.expectMigration(false, "")
		})
	}
	t.Run("not while the job is suspended", func(t *testing.T) {
		t.Parallel()
		j := ckpt(t, best(), "userdefined")
		j.d.Ckpt.Signal, j.d.Ckpt.Interval = "SIGUSR2", later
		j.begin()
		j.hears(unix.SIGUSR2)
		j.order(unix.SIGSTOP)
		j.traced("signal SIGSTOP")
		before := strings.Count(j.file("trace"), "checkpoint signal")
		// The three intervals of another job.
		other := ckpt(t, best(), "userdefined")
		other.d.Ckpt.Signal, other.d.Ckpt.Interval = "SIGUSR2", later
		other.begin()
		other.hears(unix.SIGUSR2, unix.SIGUSR2, unix.SIGUSR2)
		other.signal(unix.SIGTSTP)
		other.wait()
		if n := strings.Count(j.file("trace"), "checkpoint signal"); n != before {
			t.Errorf("%d checkpoints while it was suspended", n-before)
		}
		j.signal(unix.SIGCONT)
		j.traced("signal SIGCONT")
		j.signal(unix.SIGTSTP)
		j.wait()
	})
	t.Run("no interval", func(t *testing.T) {
		t.Parallel()
		j := ckpt(t, best(), "userdefined")
		j.d.Ckpt.Signal = "SIGUSR2"
		j.begin()
		j.order(42)
		j.hears(42)
		j.quit()
		if strings.Contains(j.file("trace"), "checkpoint signal") {
			t.Error("there was a checkpoint")
		}
	})
}

// TestMigration sends SIGTTOU: the job must end here and continue on another host.
func TestMigration(t *testing.T) {
	for name, c := range map[string]struct {
		iface   string
		edit    func(j *counted)
		test    func(j *counted)
		migrate bool
		content string // of the file checkpointed
		log     []string
	}{
		"migr_command ends the job": {
			"application-level",
			func(j *counted) { j.d.Ckpt.MigrationCommand = "/bin/echo migrate >>$LOG; kill -KILL $job_pid" },
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "1\n",
			[]string{"migrate"},
		},
		"migr_command ends the job and fails": {
			"cpr",
			func(j *counted) { j.d.Ckpt.MigrationCommand = "kill -KILL $job_pid; exit 1" },
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "",
			[]string{""},
		},
		"migr_command fails and the job goes on": {
			"hibernator",
			func(j *counted) { j.d.Ckpt.MigrationCommand = "exit 1" },
			func(j *counted) {
				j.signal(unix.SIGTTOU)
				j.traced("migr_command ended")
				j.quit()
			},
			false, "",
			[]string{"clean"},
		},
		"application-level without a command is killed": {
			"application-level", nil,
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "",
			[]string{""},
		},
		"transparent is killed": {
			"transparent", func(j *counted) { j.d.Ckpt.MigrationCommand = "/bin/echo migrate >>$LOG" },
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "",
			[]string{""},
		},
		"userdefined is killed": {
			"userdefined", nil,
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "",
			[]string{""},
		},
		"killed at once, whatever terminate_method and notify say": {
			"userdefined", func(j *counted) { j.d.TerminateMethod, j.d.Notify = "SIGTERM", time.Hour },
			func(j *counted) { j.signal(unix.SIGTTOU); j.wait() },
			true, "",
			[]string{""},
		},
		"a checkpoint of before is in the arena": {
			"application-level", func(j *counted) { j.d.Ckpt.Interval = 50 * time.Millisecond },
			func(j *counted) {
				j.traced("ckpt_command ended with exit status 0")
				j.signal(unix.SIGTTOU)
				j.wait()
			},
			true, "1\n",
			[]string{"checkpoint"},
		},
		"a checkpoint that failed is not": {
			"application-level", func(j *counted) {
				j.d.Ckpt.Interval, j.d.Ckpt.Command = 50*time.Millisecond, "exit 3"
			},
			func(j *counted) {
				j.traced("ckpt_command ended with exit status 3")
				j.signal(unix.SIGTTOU)
				j.wait()
			},
			true, "",
			[]string{""},
		},
		"while a checkpoint is written the job is killed behind it": {
			"application-level", func(j *counted) {
				begun, end := j.fifo("begun"), j.fifo("end")
				j.d.Ckpt.Interval = 50 * time.Millisecond
				j.d.Ckpt.Command = j.script("ckpt", "echo begun >"+begun.path+"; read x <"+end.path)
				j.d.Ckpt.MigrationCommand = "/bin/echo migrate >>$LOG; kill -KILL $job_pid"
			},
			func(j *counted) {
				j.fifos["begun"].expect("begun")
				j.signal(unix.SIGTTOU)
				j.traced("asked to migrate")
				j.fifos["end"].say("end")
				j.wait()
			},
			true, "1\n",
			[]string{""},
		},
		"a request to end takes it back": {
			"application-level",
			func(j *counted) { j.d.Ckpt.MigrationCommand = "exit 0" },
			func(j *counted) {
				j.signal(unix.SIGTTOU)
				j.traced("migr_command ended")
				j.signal(unix.SIGTSTP)
				j.wait()
			},
			false, "",
			[]string{"clean"},
		},
		"a job that ends by itself cleans up": {
			"application-level", nil, func(j *counted) { j.quit() }, false, "", []string{"clean"},
		},
		"a job that is killed cleans up": {
			"hibernator", nil, func(j *counted) { j.signal(unix.SIGTSTP); j.wait() }, false, "", []string{"clean"},
		},
		"signals need no cleaning": {
			"transparent", nil, func(j *counted) { j.quit() }, false, "", []string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := ckpt(t, best(), c.iface)
			j.d.Ckpt.Signal = "SIGUSR2"
			if c.edit != nil {
				c.edit(j)
			}
			j.begin()
			c.test(j)
			j.expect(0)
			j.expectMigration(c.migrate, c.content)
			var log []string
			for _, line := range j.logged() {
				word, _, _ := strings.Cut(line, " ")
				if len(log) == 0 || log[len(log)-1] != word {
					log = append(log, word)
				}
			}
			if !slices.Equal(log, c.log) {
				t.Errorf("commands %q, want %q", log, c.log)
			}
		})
	}
	t.Run("before the job has begun", func(t *testing.T) {
		t.Parallel()
		j := ckpt(t, best(), "transparent")
		j.d.Ckpt.Signal = "SIGUSR2"
		running, release := j.fifo("running"), j.fifo("release")
		j.d.Prolog = j.script("prolog", "echo running >"+running.path+"; read x <"+release.path)
		j.write()
		j.start()
		running.expect("running")
		j.signal(unix.SIGTTOU)
		j.traced("asked to migrate")
		release.say("go")
		j.wait()
		j.expect(0)
		j.expectMigration(true, "")
		if j.usage() != nil {
			t.Error("the job was started")
		}
	})
	t.Run("the epilog comes behind the clean_command", func(t *testing.T) {
		t.Parallel()
		j := ckpt(t, best(), "cpr")
		end := j.fifo("end")
		j.d.Ckpt.CleanCommand = "read x <" + end.path + "; /bin/echo clean >>$LOG"
		j.d.Epilog = j.script("epilog", "echo epilog >>"+j.log)
		j.begin()
		j.order(unix.SIGQUIT)
		j.traced("clean_command starts")
		end.say("end")
		j.wait()
		if got, want := j.logged(), []string{"clean", "epilog"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestRestart checks the start of a job that has run before.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		iface     string
		restarted job.Restart
		command   string
		runs      string
	}{
		"first run":                        {"hibernator", job.FirstRun, "/bin/echo restart $job_pid $ckpt_dir", "job"},
		"restarted without a checkpoint":   {"hibernator", job.RestartedJob, "/bin/echo restart $job_pid $ckpt_dir", "job"},
		"from a checkpoint, hibernator":    {"hibernator", job.RestartedFromCkpt, "/bin/echo restart $job_pid $ckpt_dir", "restart 4711 /ckpt/dir"},
		"from a checkpoint, cpr":           {"cpr", job.RestartedFromCkpt, "/bin/echo restart $job_pid $ckpt_dir", "restart 4711 /ckpt/dir"},
		"from a checkpoint, no command":    {"cpr", job.RestartedFromCkpt, "", "job"},
		"application-level starts again":   {"application-level", job.RestartedFromCkpt, "/bin/echo restart", "job"},
		"transparent starts again":         {"transparent", job.RestartedFromCkpt, "/bin/echo restart", "job"},
		"userdefined starts again":         {"userdefined", job.RestartedFromCkpt, "/bin/echo restart", "job"},
		"a path with blanks in a variable": {"cpr", job.RestartedFromCkpt, "/bin/echo restart '$job_name' \"$job_name\" $job_name", "restart 'a b' 'a b' a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "echo job")
			j.d.Restarted = c.restarted
			j.d.Ckpt = &job.Checkpoint{Interface: c.iface, RestartCommand: c.command, Dir: "/ckpt/dir", PID: 4711, Signal: "USR2"}
			if strings.Contains(name, "blanks") {
				j.d.Name = "a b"
				c.runs = "" // what the quotes of the site make of it is the site's
			}
			j.run()
			j.expect(0)
			if got := strings.TrimSuffix(j.output("out"), "\n"); c.runs != "" && got != c.runs {
				t.Errorf("it ran %q, want %q", got, c.runs)
			}
		})
	}
}
