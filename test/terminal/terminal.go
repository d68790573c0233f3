// Package terminal simulates a user at a terminal: a program runs on a pseudo terminal (pty(7)),
// and the test types, changes the size of the window, and reads the output.
//
// A Session may be used by one goroutine at a time.
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

// Keys with a meaning for the program in the foreground.
const (
	Interrupt = "\x03" // Ctrl-C
	EndOfFile = "\x04" // Ctrl-D
	Suspend   = "\x1a" // Ctrl-Z
)

// patience is the timeout of a test.
const patience = 3 * time.Minute

// Session is a program on a terminal.
type Session struct {
	t       testing.TB
	cmd     *exec.Cmd
	keys    *os.File // the user's end
	program *os.File // the program's end

	mu    sync.Mutex
	shown []byte
	read  int           // length of the output that See has returned
	more  chan struct{} // signals more output
	ended chan struct{} // closed when the program has exited
}

// Start starts a program in its own session on a terminal of the given size. The program is killed
// when the test ends.
func Start(t testing.TB, cmd *exec.Cmd, rows, cols uint16) *Session {
	t.Helper()
	s := &Session{t: t, cmd: cmd, more: make(chan struct{}, 1), ended: make(chan struct{})}
	// Not blocking, so that closing it also ends pending reads.
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
	if c := cmd.SysProcAttr.Credential; c != nil { // like the terminal of a login
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
		_ = cmd.Wait() // Status uses the process state
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

// See waits for a text after the previous one, and returns the output in between.
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

// Resize changes the size of the window. The kernel sends SIGWINCH to the programs in the
// foreground (ioctl_tty(2), TIOCSWINSZ).
func (s *Session) Resize(rows, cols uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		s.t.Error(err)
	}
}

// Cooked reports whether the terminal is in the mode in which shells leave it: with echo, line by
// line, and with keys that send signals.
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

// Status waits for the end of the program, and returns its exit status; 128+n if signal n has
// killed it.
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
