package launch

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// jobWith makes a job directory with the files that a shepherd has left.
func jobWith(t *testing.T, files map[string]string) *Job {
	t.Helper()
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	d := &job.Description{
		ID: job.ID{Job: 7}, Name: "n", Owner: "o", Limits: job.Unlimited(),
		Command: job.Command{StartMode: job.UnixBehavior}, Cwd: "/",
	}
	dir, err := spool.Create(d, jobdir.CreateOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	for name, text := range files {
		if err := dir.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return &Job{Dir: dir, Description: d, spool: spool, terminal: true}
}

// usageFile returns the usage file that a shepherd writes for a job with this wait status.
func usageFile(status syscall.WaitStatus) string {
	now := time.Unix(1700000000, 0)
	return string(jobdir.FormatUsage(jobdir.NewUsage(status, &syscall.Rusage{}, now, now)))
}

// TestCollect goes through what a shepherd may leave (sge_status(5)): the files
// decide, and where they are missing or damaged, how the shepherd ended.
func TestCollect(t *testing.T) {
	exited := func(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }
	record := func(text string) string { return "11/21/2026 00:00:00 [0:1]: " + text + "\n" }
	for name, c := range map[string]struct {
		files    map[string]string
		shepherd syscall.WaitStatus
		failed   job.Failed
		ran      bool
		status   int
		reason   string // contained
	}{
		"a job that went well": {
			map[string]string{"exit_status": "0\n", "error": "", "usage": usageFile(exited(0))}, exited(0), 0, true, 0, "",
		},
		"a job with an exit status of its own": {
			map[string]string{"exit_status": "0\n", "error": "", "usage": usageFile(exited(3))}, exited(0), 0, true, 3, "",
		},
		"death by a signal": {
			map[string]string{"exit_status": "0\n", "error": "", "usage": usageFile(syscall.WaitStatus(unix.SIGSEGV))},
			exited(0),
			job.FailedAfterJob, true, 139, "died through signal SEGV",
		},
		"a prolog that failed: there was no job": {
			map[string]string{"exit_status": "8\n", "error": record("prolog ended with exit status 1")},
			exited(8),
			job.FailedProlog, false, 0, "prolog ended with exit status 1",
		},
		"the first of several failures counts": {
			map[string]string{"exit_status": "8\n15\n", "error": record("first") + record("second")},
			exited(8),
			job.FailedProlog, false, 0, "first",
		},
		"an epilog that failed after the job": {
			map[string]string{"exit_status": "15\n", "error": record("epilog ended with exit status 1"), "usage": usageFile(exited(2))},
			exited(15),
			job.FailedEpilog, true, 2, "epilog ended with exit status 1",
		},
		"an error without a failure": {
			map[string]string{"exit_status": "0\n", "error": record("odd"), "usage": usageFile(exited(0))},
			exited(0),
			job.FailedErrorFile, true, 0, "odd",
		},
		"no verdict, and a shepherd that was killed": {
			map[string]string{"exit_status": "", "error": ""},
			syscall.WaitStatus(unix.SIGKILL),
			job.FailedNoExitStatus, false, 0, "its shepherd was ended by signal KILL",
		},
		"no verdict, but the shepherd has said it": {
			map[string]string{"exit_status": "", "error": ""}, exited(11), job.FailedInJobChild, false, 0, "",
		},
		"no verdict at all": {
			map[string]string{"exit_status": "", "error": ""}, exited(0), job.FailedNoExitStatus, false, 0, "has not written down",
		},
		"nothing at all": {
			nil, exited(0), job.FailedBeforeProlog, false, 0, "",
		},
		"a verdict that is not a number": {
			map[string]string{"exit_status": "x\n", "error": ""}, exited(0), job.FailedNoExitStatus, false, 0, "",
		},
		"a good end without a job: it was to end before it began": {
			map[string]string{"exit_status": "0\n", "error": ""}, exited(0), job.FailedAfterJob, false, 0, "was ended before it began",
		},
		"a job that migrates": {
			map[string]string{"exit_status": "0\n", "error": "", "usage": usageFile(syscall.WaitStatus(unix.SIGKILL)), "checkpointed": "1\n"},
			exited(0),
			job.FailedMigrate, true, 137, "",
		},
		"a job for which something was missing": {
			map[string]string{"exit_status": "0\n", "error": "", "usage": usageFile(exited(0)), "noresources": ""},
			exited(0),
			job.FailedReschedule, true, 0, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := jobWith(t, c.files)
			o := Collect(j.Dir, j.Description, c.shepherd)
			if o.Failed != c.failed || o.Ran != c.ran || o.ExitStatus != c.status {
				t.Errorf("failed %d, ran %v, exit status %d; expected %d, %v, %d", o.Failed, o.Ran, o.ExitStatus, c.failed, c.ran, c.status)
			}
			if !strings.Contains(o.Reason, c.reason) || (o.Reason == "") != (c.failed == 0) {
				t.Errorf("reason %q, expected %q", o.Reason, c.reason)
			}
			if row := job.FailureOf(c.failed); o.Class != row.Class {
				t.Errorf("class %s, expected %s", o.Class, row.Class)
			}
		})
	}
}

// TestSweepLeavesOthersAlone checks that Sweep removes only directories of foreground jobs, and only
// those that no process has locked.
func TestSweepLeavesOthersAlone(t *testing.T) {
	owner := func(string) (*userdb.User, error) {
		return &userdb.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}, nil
	}
	gone := func(j *Job) bool {
		_, err := os.Stat(j.Dir.Path())
		return err != nil
	}
	daemons := jobWith(t, map[string]string{"exit_status": "0\n"})
	if list, err := Sweep(daemons.spool, nil, owner); err != nil || len(list) != 0 || gone(daemons) {
		t.Errorf("a job of a daemon was swept: %v, %v", list, err)
	}
	kept := jobWith(t, nil)
	if err := kept.wait(); err != nil {
		t.Fatal(err)
	}
	if err := kept.Remove(true); err != nil {
		t.Fatal(err)
	}
	if list, err := Sweep(kept.spool, nil, owner); err != nil || len(list) != 0 || gone(kept) {
		t.Errorf("a directory that was kept was swept: %v, %v", list, err)
	}
	mine := jobWith(t, map[string]string{"exit_status": "0\n", "error": ""})
	if err := mine.wait(); err != nil {
		t.Fatal(err)
	}
	if list, err := Sweep(mine.spool, nil, owner); err != nil || len(list) != 0 || gone(mine) {
		t.Errorf("a job that is waited for was swept: %v, %v", list, err)
	}
	_ = mine.Dir.Close() // as the end of the process does
	if list, err := Sweep(mine.spool, nil, owner); err != nil || len(list) != 1 || list[0].Err != nil || !gone(mine) {
		t.Errorf("what was left of a job was not swept: %v, %v", list, err)
	}
}
