package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

// TestTry checks that a trial succeeds on a host that can start jobs, names the fault on a host
// that cannot, and leaves no files behind.
func TestTry(t *testing.T) {
	spool, o := orderOf(t)
	own := filepath.Join(openDir(t), ShepherdName)
	good, err := os.ReadFile(realSupervisor(t))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, mode os.FileMode) func() error {
		return func() error {
			return errors.Join(os.RemoveAll(own), os.WriteFile(own, []byte(text), mode), os.Chmod(own, mode))
		}
	}
	active := spool.Path() + "/active_jobs"
	for _, c := range []struct {
		begin func() error
		want  string
	}{
		{write(string(good), 0o755), ""},
		{write(string(good), 0o644), "permission denied"},
		{write(string(good[:1000]), 0o755), own},
		{write("#!/bin/sh\nexit 3\n", 0o755), "ended with status 3 before it wrote anything"},
		{write("#!/bin/sh\nkill -9 $$\n", 0o755), "died through signal 9 before it wrote anything"},
		{func() error { return os.Remove(own) }, "no such file or directory"},
		{func() error { return errors.Join(write(string(good), 0o755)(), os.Rename(active, active+".aside")) }, "cannot use spool directory " + active},
		{func() error { return os.Rename(active+".aside", active) }, ""},
		{func() error { return os.MkdirAll(active+"/trial/from/before", 0o755) }, ""},
	} {
		if err := c.begin(); err != nil {
			t.Fatal(err)
		}
		err := Try(t.Context(), spool, o.Groups, o.Config, own)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("the trial says %v, want %q", err, c.want)
		}
		if _, err := os.Stat(active + "/trial"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its directory is left: %v", err)
		}
	}
	o.Config.ShepherdCmd = "/nonexistent/wrapper"
	if err := Try(t.Context(), spool, o.Groups, o.Config, own); err == nil || !strings.Contains(err.Error(), "shepherd_cmd /nonexistent/wrapper") {
		t.Errorf("without the program of the site: %v", err)
	}
}

// TestTrialThatHangs checks that a supervisor that does not end is killed with its whole group when
// the time of the trial is over.
func TestTrialThatHangs(t *testing.T) {
	spool, o := orderOf(t)
	dir := openDir(t)
	own, fifo := filepath.Join(dir, ShepherdName), filepath.Join(dir, "fifo")
	script := "#!/bin/sh\nsleep 1000 & echo $! >" + fifo + "; wait\n"
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(own, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan error, 1)
	go func() { said <- Try(ctx, spool, o.Groups, o.Config, own) }()
	text, err := os.ReadFile(fifo) // it runs
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	cancel()
	if err := <-said; err == nil || !strings.Contains(err.Error(), "did not exit within") {
		t.Errorf("the trial says %v", err)
	}
	if !testenv.Ended(pidfd, time.Minute) {
		t.Error("what it has started goes on")
	}
}

// TestTrialAfterInterruptedTrial checks that the group of an interrupted trial does not make the
// next one fail.
func TestTrialAfterInterruptedTrial(t *testing.T) {
	_, o := orderOf(t)
	need(t, o, cgroup.MemoryLimit)
	if _, err := o.Groups.manager.Create(trialName, cgroup.Limits{Counted: true}); err != nil {
		t.Fatal(err)
	}
	if err := o.Groups.try(); err != nil {
		t.Error(err)
	}
}
