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

	"github.com/gdamore/tcell/v3/vt"
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

	finish   sync.Once     // waits for the rest of the output
	stopped  bool          // the terminal accepts no data
	complete chan struct{} // closed when shown contains all output of a program that has exited

	display vt.MockTerm // shows the output; nil without one
}

// Start starts a program in its own session on a terminal of the given size. The program is killed
// when the test ends.
func Start(t testing.TB, cmd *exec.Cmd, rows, cols uint16) *Session {
	t.Helper()
	s := &Session{t: t, cmd: cmd, more: make(chan struct{}, 1), ended: make(chan struct{}), complete: make(chan struct{})}
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
	s.display = vt.NewMockTerm(vt.MockOptSize{X: vt.Col(cols), Y: vt.Row(rows)})
	if err := s.display.Start(); err != nil {
		t.Fatal(err)
	}
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
		last := n > 0 && b[n-1] == endMark && s.exited()
		if last {
			n--
		}
		s.mu.Lock()
		s.shown = append(s.shown, b[:n]...)
		if s.display != nil {
			_, _ = s.display.Write(b[:n]) // an emulator takes all
		}
		s.mu.Unlock()
		if last {
			close(s.complete)
			return
		}
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

// Until waits until the lines on the screen of the terminal satisfy a condition, and returns them. The
// emulator of package tcell makes them from the output.
func (s *Session) Until(what string, is func(lines []string) bool) []string {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		lines := s.lines()
		if is(lines) {
			return lines
		}
		ended := false
		select {
		case <-s.more:
		case <-s.ended:
			ended = !is(s.lines())
		case <-timeout.C:
			ended = true
		}
		if ended {
			s.t.Fatalf("not so: %s; the screen shows\n%s", what, strings.Join(s.lines(), "\n"))
		}
	}
}

// lines returns the lines on the screen, without blanks at their ends.
func (s *Session) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, err := s.display.WindowSize()
	if err != nil {
		s.t.Fatal(err)
	}
	lines := make([]string, size.Height)
	for y := range lines {
		var b strings.Builder
		for x := 0; x < size.Width; {
			c := s.display.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)})
			if c.C == "" {
				b.WriteByte(' ')
			}
			b.WriteString(c.C)
			x += max(c.W, 1)
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// Output returns all output so far.
func (s *Session) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
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
	s.mu.Lock()
	s.display.SetSize(vt.Coord{X: vt.Col(cols), Y: vt.Row(rows)})
	s.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(s.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		s.t.Error(err)
	}
}

// Stop makes the terminal accept no more data, as Ctrl-S does.
func (s *Session) Stop() {
	s.t.Helper()
	s.stopped = true
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, s.program.Fd(), unix.TCXONC, unix.TCOOFF); errno != 0 {
		s.t.Error(errno)
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

func (s *Session) exited() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// endMark is written to the terminal after the program has exited: what is read before it is all
// output of the program. Programs do not write it to a terminal.
const endMark = 0

// Status waits for the end of the program and for its output, and returns its exit status; 128+n if
// signal n has killed it. Of a stopped terminal it does not wait for the output.
func (s *Session) Status() int {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
		s.t.Fatal("the program does not end")
	}
	s.finish.Do(func() {
		if s.stopped {
			return
		}
		if _, err := s.program.Write([]byte{endMark}); err != nil {
			s.t.Fatal(err)
		}
		select {
		case <-s.complete:
		case <-timeout.C:
			s.t.Fatal("the output of the program does not end")
		}
	})
	const signalled = 128
	if w, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalled + int(w.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}
