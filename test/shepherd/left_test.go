package shepherd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// TestNothingIsLeft checks that all ways in which a job may leave processes behind are handled.
func TestNothingIsLeft(t *testing.T) {
	const ignore = `trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM CHLD TSTP TTIN TTOU; `
	for name, script := range map[string]string{
		"in the background":             "sleep 1000 & sleep 1000 &",
		"nohup":                         "nohup sleep 1000 >/dev/null 2>&1 &",
		"in a session of its own":       "setsid sleep 1000 & setsid setsid sleep 1000 &",
		"as a daemon":                   "(setsid sh -c 'sleep 1000 & exit' &)",
		"ten generations deep":          "f() { [ $1 = 0 ] && sleep 1000 || (f $(($1-1)) & sleep 1000); }; f 10 &",
		"ignoring everything":           "(" + ignore + "setsid sh -c 'sleep 1000; sleep 1000; sleep 1000') & (" + ignore + "sleep 1000) &",
		"stopped":                       "sh -c 'kill -STOP $$' & setsid sh -c 'kill -STOP $$' &",
		"two hundred":                   "i=0; while [ $i -lt 100 ]; do sleep 1000 & setsid sleep 1000 & i=$((i+1)); done",
		"forking while it is killed":    "for k in 1 2 3; do setsid sh -c 'i=0; while [ $i -lt 300 ]; do (setsid sleep 1000 &) ; i=$((i+1)); done' & done",
		"an heir for each that dies":    "setsid sh -c 'while :; do sh -c \"sleep 1000\"; done' &",
		"a subreaper of its own":        "setsid sh -c '(sleep 1000 &) ; (setsid sleep 1000 &); exec sleep 1000' &",
		"without its environment":       "env -i setsid sleep 1000 & env -i JOB_ID=$JOB_ID sleep 1000 &",
		"holding the output open":       "sleep 1000 >/dev/null 2>&1 & exec >/dev/null 2>&1",
		"with a parent that died first": "sh -c 'sleep 1000 & sleep 1000 & kill -KILL $$'",
	} {
		for _, end := range []string{"exit", "kill", "h_rt"} {
			t.Run(name+", ended by "+end, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, best(), "")
				begun := j.fifo("begun")
				text := script + "\necho $! >" + begun.path
				if end != "exit" {
					text += "\nwhile :; do sleep 1000; done"
				}
				j.d.Command.File = j.script("script", text)
				if end == "h_rt" {
					j.d.Limits[job.RT] = job.Limit{Soft: none, Hard: 1}
				}
				// All processes have been killed when the epilog begins.
				j.d.Epilog = j.script("epilog", "for p in /proc/[0-9]*; do [ $p != /proc/$$ ] && tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx JOB_ID=$JOB_ID && cat $p/comm; done >>"+j.log+" 2>/dev/null; exit 0")
				before := allProcesses()
				j.write()
				j.start()
				if end != "h_rt" {
					begun.line()
				}
				if end == "kill" {
					j.signal(unix.SIGTSTP)
				}
				j.wait()
				if end == "h_rt" {
					j.expect(37)
				} else {
					j.expect(0)
				}
				j.nothingLeft()
				for _, comm := range j.logged() {
					if comm == "sleep" {
						t.Errorf("the epilog saw %s", comm)
					}
				}
				if strings.HasPrefix(name, "without its environment") {
					j.check(j.noNewSleep(before))
				}
			})
		}
	}
}

// noNewSleep finds a process without the job's environment. Processes of other tests have another
// additional group, if there is one.
func (j *testJob) noNewSleep(before []int) error {
	group := strconv.Itoa(j.d.AddGroupID)
	for _, pid := range allProcesses() {
		if !slices.Contains(before, pid) && slices.Contains(strings.Fields(status(pid, "Groups")), group) && alive(pid) {
			return fmt.Errorf("process %d with group %s is left", pid, group)
		}
	}
	return nil
}

// TestDaemonsOfProcedures checks that processes left running by prolog and pe_start do not belong to the job:
// they get none of the job's signals and are not killed with it. Here they report each signal. After the last
// step those of the owner are ended, and those of other users continue.
func TestDaemonsOfProcedures(t *testing.T) {
	for _, as := range []string{"", "root@", "site@"} {
		t.Run("as "+as, func(t *testing.T) {
			everyMode(t, func(t *testing.T, m mode) {
				if m == asUser && as != "" {
					return // needs root
				}
				testDaemons(t, m, as)
			})
		})
	}
}

func testDaemons(t *testing.T, m mode, as string) {
	t.Helper()
	j := count(t, m)
	late, epilog, end := j.fifo("late"), j.fifo("epilog"), j.fifo("end")
	j.d.Epilog = j.script("last", "echo begun >"+epilog.path+"; read x <"+end.path)
	j.d.Prolog = as + j.script("prolog", strings.Join([]string{
		j.counter("plain") + " &",
		"setsid " + j.counter("session") + " &",
		"setsid sh -c '" + j.counter("daemon") + " & exit'",
		// One that is a child of a daemon now, and an orphan later.
		"(" + j.counter("child") + " & read x <" + late.path + ") &",
		// And one on its way into the background, with the job begun.
		"(read x <" + late.path + "; " + j.counter("slow") + " &) &",
	}, "\n"))
	j.d.PE = &job.ParallelEnvironment{Name: "pe", Start: as + j.script("pe_start", j.counter("pe")+" &\n:"), StdoutPath: j.work, StderrPath: j.work}
	labels := []string{"plain", "session", "daemon", "child", "pe", "job"}
	j.begin(labels...)
	late.say("go")
	late.say("go")
	j.awaitReady("slow")
	delete(j.pids, "job")
	for label, pid := range j.pids {
		await(t, label+" to be the shepherd's", func() bool { return status(pid, "PPid") == strconv.Itoa(j.cmd.Process.Pid) })
	}
	// Only the job hears it, and the stop that comes after it.
	j.signal(unix.SIGUSR1)
	j.hears(unix.SIGUSR1)
	j.order(unix.SIGSTOP)
	j.traced("signal SIGSTOP delivered to 1 processes")
	j.awaitStopped(false)
	j.signal(unix.SIGTSTP)
	epilog.expect("begun")
	for label, pid := range j.pids {
		if !alive(pid) {
			t.Errorf("%s ended with the job", label)
		}
	}
	end.say("go")
	j.wait()
	j.expect(0)
	j.expectUsage(137, 9)
	for label, pid := range j.pids {
		if alive(pid) != (as != "") {
			t.Errorf("%s is alive after the job: %v", label, as == "")
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for j.moreLines() {
	}
}

// TestStraysOfTheOwner lets a process that a prolog of the owner has left start another one while an epilog of root runs,
// and leaves a process of root running as well. Only the latter may continue.
func TestStraysOfTheOwner(t *testing.T) {
	needRoot(t)
	for name, m := range map[string]mode{"root": asRoot, "a real execd": asAdmin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "exit 0")
			begun, done, out := j.fifo("begun"), j.fifo("done"), " </dev/null >/dev/null 2>&1"
			fork := j.script("fork", "read x <"+begun.path+"; (setsid sh -c 'echo $$ >>"+j.log+"; echo done >"+done.path+"; exec sleep 1000' &)")
			j.d.Prolog = j.script("prolog", "setsid "+fork+out+" &")
			j.d.Epilog = "root@" + j.script("epilog", "echo begun >"+begun.path+"; read x <"+done.path+"; setsid sleep 1000"+out+" &\necho $! >>"+j.log)
			j.run()
			j.expect(0)
			pids := j.logged()
			if len(pids) != 2 {
				t.Fatalf("processes %q, want two", pids)
			}
			for i, whose := range []string{"the owner", "root"} {
				pid, err := strconv.Atoi(pids[i])
				j.check(err)
				if alive(pid) != (whose == "root") {
					t.Errorf("the process of %s is alive after the job: %v", whose, whose != "root")
				}
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
}

// TestOrphansAreCollected checks that the shepherd reaps all orphans of its job.
func TestOrphansAreCollected(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "")
		made, end := j.fifo("made"), j.fifo("end")
		j.d.Command.File = j.script("script", "i=0; while [ $i -lt 50 ]; do (true &); (setsid true &); i=$((i+1)); done; echo made >"+made.path+"; read x <"+end.path)
		j.write()
		j.start()
		made.expect("made")
		parent := strconv.Itoa(j.cmd.Process.Pid)
		await(t, "the dead to be gone", func() bool {
			for _, pid := range allProcesses() {
				if status(pid, "PPid") == parent && !alive(pid) {
					return false
				}
			}
			return true
		})
		end.say("end")
		j.wait()
		j.expect(0)
	})
}

// TestShepherdIsKilled checks that the kernel kills the job if the shepherd was killed.
func TestShepherdIsKilled(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		t.Run("while the job runs", func(t *testing.T) {
			t.Parallel()
			j := count(t, m)
			j.begin()
			j.check(j.cmd.Process.Kill())
			j.wait()
			await(t, "the job to end", func() bool { return !alive(j.pids["job"]) })
			if got := j.file("exit_status"); got != "" {
				t.Errorf("exit_status has %q", got)
			}
			if _, err := os.Stat(j.active + "/exit_status"); err != nil {
				t.Error(err)
			}
		})
		t.Run("while the prolog runs", func(t *testing.T) {
			t.Parallel()
			j := count(t, m)
			as := ""
			if m != asUser {
				as = "root@"
			}
			j.d.Prolog = as + base + "/bin/counter " + j.told.path + " prolog"
			j.begin("prolog")
			j.check(j.cmd.Process.Kill())
			j.wait()
			await(t, "the prolog to end", func() bool { return !alive(j.pids["prolog"]) })
		})
		t.Run("while it waits for its output file", func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "exit 0")
			j.check(unix.Mkfifo(j.work+"/fifo", 0o666))
			j.check(os.Chmod(j.work+"/fifo", 0o666))
			j.d.Streams[1].Path = j.work + "/fifo"
			j.write()
			j.start()
			await(t, "the job to start", func() bool { return j.file("job_pid") != "" })
			pid, err := strconv.Atoi(strings.TrimSpace(j.file("job_pid")))
			j.check(err)
			j.check(j.cmd.Process.Kill())
			j.wait()
			await(t, "the job to end", func() bool { return !alive(pid) })
		})
	})
}
