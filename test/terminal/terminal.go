// Package terminal has a test sit at a terminal: a program runs on a pseudo terminal
// (pty(7)), and the test types, changes the size of the window, and reads what is shown.
//
// A Session may be used by one goroutine.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Keys that a terminal has for the program in the foreground.
const (
	Interrupt = "\x03" // Ctrl-C
	EndOfFile = "\x04" // Ctrl-D
	Suspend   = "\x1a" // Ctrl-Z
)

// patience is when a test gives up.
const patience = 3 * time.Minute

// Session is a program on a terminal.
type Session struct {
	t       testing.TB
	cmd     *exec.Cmd
	keys    *os.File // what a person has
	program *os.File // what programs have

	mu    sync.Mutex
	shown []byte
	read  int           // of what is shown, by See
	more  chan struct{} // there is more of it
	ended chan struct{} // closed when the program has
}

// Start starts a program in a session of its own on a terminal of some size. It is killed
// when the test ends.
func Start(t testing.TB, cmd *exec.Cmd, rows, cols uint16) *Session {
	t.Helper()
	s := &Session{t: t, cmd: cmd, more: make(chan struct{}, 1), ended: make(chan struct{})}
	// Not blocking, so that closing it ends who reads.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.keys = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { s.keys.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	if s.program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.program.Close() })
	s.Resize(rows, cols)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.program, s.program, s.program
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if c := cmd.SysProcAttr.Credential; c != nil { // as if he had logged in there
		if err := s.program.Chown(int(c.Uid), -1); err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.follow()
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // Status looks at the process state
	}()
	t.Cleanup(func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	return s
}

func (s *Session) follow() {
	b := make([]byte, 64<<10)
	for {
		n, err := s.keys.Read(b)
		s.mu.Lock()
		s.shown = append(s.shown, b[:n]...)
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// See waits for a text behind what was waited for before, and returns what is between.
func (s *Session) See(want string) string {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		rest := string(s.shown[s.read:])
		s.mu.Unlock()
		if before, _, ok := strings.Cut(rest, want); ok {
			s.read += len(before) + len(want)
			return before
		}
		select {
		case <-s.more:
		case <-timeout.C:
			const most = 2000
			s.t.Fatalf("%q does not appear: %q", want, rest[max(0, len(rest)-most):])
		}
	}
}

// Type types a text.
func (s *Session) Type(text string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(text); err != nil {
		s.t.Error(err)
	}
}

// Resize changes the size of the window, of which programs in the foreground are told by
// SIGWINCH (ioctl_tty(2), TIOCSWINSZ).
func (s *Session) Resize(rows, cols uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		s.t.Error(err)
	}
}

// Cooked reports whether the terminal is as shells leave it: it echoes what is typed, by
// lines, and some keys send signals.
func (s *Session) Cooked() bool {
	s.t.Helper()
	const flags = unix.ECHO | unix.ICANON | unix.ISIG
	m, err := unix.IoctlGetTermios(int(s.program.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Error(err)
		return false
	}
	return m.Lflag&flags == flags && m.Oflag&unix.OPOST != 0
}

// Status waits for the end of the program, and returns its exit status; 128 and the number
// of a signal that has ended it.
func (s *Session) Status() int {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
		s.t.Fatal("the program does not end")
	}
	const signalled = 128
	if w, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalled + int(w.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}
