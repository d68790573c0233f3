package program_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
)

// script writes a program of the site; its directory has fifos with the given names, over which it
// and the test wait for each other.
func script(t *testing.T, text string, fifos ...string) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range fifos {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, dir
}

// said waits for a number that a program writes into a fifo.
func said(t *testing.T, fifo string) int {
	t.Helper()
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone waits for the end of a process that is not a child of the test.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 60_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("process %d still runs: %v", pid, err)
		}
		return
	}
}

// TestCancelKillsProgramAndChildren runs a program that hangs with a child; both are killed when
// the context ends.
func TestCancelKillsProgramAndChildren(t *testing.T) {
	path, dir := script(t, "#!/bin/sh\ntrap '' TERM INT HUP\nsleep 1000 &\necho $! >child\nwait\n", "child")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, &program.Command{Path: path, Dir: dir}) }()
	child := said(t, dir+"/child")
	if pgid, err := unix.Getpgid(child); err != nil || pgid == unix.Getpgrp() {
		t.Errorf("the child is in the process group %d of the test: %v", pgid, err)
	}
	late := errors.New("too late")
	cancel(late)
	if err := <-ended; !errors.Is(err, late) {
		t.Errorf("the error is %v", err)
	}
	gone(t, child)
}

// TestProcessesLeftBehind runs programs that leave processes behind. A process in the program's
// group is killed unless Leave is set. A process in its own session that holds the output open does
// not delay the end.
func TestProcessesLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		leave bool
		lives bool
	}{
		"in the group":                 {"sleep 1000 >/dev/null 2>&1 &\necho $! >child\n", false, false},
		"in the group and left":        {"sleep 1000 >/dev/null 2>&1 &\necho $! >child\n", true, true},
		"in a session with the output": {"setsid sh -c 'echo $$ >child; exec sleep 1000' &\ncat go\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := script(t, "#!/bin/sh\n"+c.text, "child", "go")
			out := program.Head{Most: 10}
			p, err := program.Start(&program.Command{Path: path, Dir: dir, Stdout: &out, WaitDelay: time.Millisecond, Leave: c.leave})
			if err != nil {
				t.Fatal(err)
			}
			child := said(t, dir+"/child")
			defer func() { _ = unix.Kill(child, unix.SIGKILL) }()
			if strings.Contains(c.text, "cat go") {
				if err := os.WriteFile(dir+"/go", nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Err(); err != nil {
				t.Error(err)
			}
			if !c.lives {
				gone(t, child)
			} else if err := unix.Kill(child, 0); err != nil {
				t.Errorf("the process that was left behind: %v", err)
			}
			p.Kill() // the group is that of nobody now
			if c.lives {
				if err := unix.Kill(child, 0); err != nil {
					t.Errorf("after the end of the program: %v", err)
				}
			}
		})
	}
}

// TestEndlessOutputKeepsFirstBytes runs a program that writes without end: the first bytes are
// kept.
func TestEndlessOutputKeepsFirstBytes(t *testing.T) {
	path, dir := script(t, "#!/bin/sh\necho begin\ndd if=/dev/zero bs=1M count=20 2>/dev/null\necho $$ >ready\nexec cat /dev/zero\n", "ready")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := program.Head{Most: 8}
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, &program.Command{Path: path, Dir: dir, Stdout: &out, Stderr: &out}) }()
	said(t, dir+"/ready")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || string(out.Kept) != "begin\n\x00\x00" {
		t.Errorf("%v, %q", err, out.Kept)
	}
}

// TestReapedAfterTheKill sees that a program which has ended is not reaped before its group is killed:
// until then no other process can have its number.
func TestReapedAfterTheKill(t *testing.T) {
	path, dir := script(t, "#!/bin/sh\nexit 3\n")
	states := make(chan string, 10)
	p, err := program.Start(&program.Command{Path: path, Dir: dir, Signal: func(pid int, _ unix.Signal) error {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(-pid) + "/stat")
		_, fields, _ := strings.Cut(string(stat), ") ")
		states <- fields[:min(1, len(fields))]
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err == nil || err.Error() != "exit status 3" || p.State().ExitCode() != 3 {
		t.Errorf("%v, %v", err, p.State())
	}
	if s := <-states; s != "Z" {
		t.Errorf("the state of the program is %q when its group is killed, expected Z: not reaped", s)
	}
	p.Kill()
	if len(states) > 0 {
		t.Error("a group is killed whose number may be that of another one")
	}
}

// TestStart runs programs without an interpreter line, with input, without the descriptors of the
// test, and without a file.
func TestStart(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // as one that the test was started with
		t.Fatal(err)
	}
	path, dir := script(t, "read line\necho $line $1 $NAME $(pwd)\n[ -e /proc/self/fd/"+strconv.Itoa(int(f.Fd()))+" ] && echo open\ntrue\n")
	out := program.Head{Most: 1000}
	c := program.Command{
		Path: path, Args: []string{"argument"}, Dir: dir, Env: []string{"NAME=value", "PATH=" + program.SearchPath},
		Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &out,
	}
	if err := program.Run(t.Context(), &c); err != nil || string(out.Kept) != "input argument value "+dir+"\n" {
		t.Errorf("%v, %q", err, out.Kept)
	}
	if err := program.Run(t.Context(), &program.Command{Path: dir + "/none"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
