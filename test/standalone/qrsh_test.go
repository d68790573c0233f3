package standalone

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"syscall"
	"testing"
)

// session is a running qrsh.
type session struct {
	*machine
	cmd    *exec.Cmd
	in     io.WriteCloser
	stdout io.ReadCloser
	out    *bufio.Reader // reads stdout
	stderr bytes.Buffer
}

// qrsh starts a command as a job as soon as possible. It avoids the user's login shell, since the
// user may not be allowed to log in.
func (m *machine) qrsh(u *user.User, command string, options ...string) *session {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	m.Cleanup(cancel)
	s := &session{machine: m}
	s.cmd = m.command(ctx, u, "qrsh", append(append([]string{"-now", "n", "-wd", "/"}, options...), "-noshell", "/bin/sh", "-c", command)...)
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		m.Fatal(err)
	}
	if s.stdout, err = s.cmd.StdoutPipe(); err != nil {
		m.Fatal(err)
	}
	s.out = bufio.NewReader(s.stdout)
	s.cmd.Stderr = &s.stderr
	if err := s.cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// line waits for a line of the job's output.
func (s *session) line(want string) {
	s.Helper()
	if got, err := s.out.ReadString('\n'); got != want+"\n" {
		s.Fatalf("%q, %v, expected the line %q; standard error %q", got, err, want, s.stderr.String())
	}
}

// ends waits for the end, and compares the output until then.
func (s *session) ends(status int, out, errs string) {
	s.Helper()
	rest, err := io.ReadAll(s.out)
	if err != nil {
		s.Error(err)
	}
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != status || string(rest) != out || !strings.Contains(s.stderr.String(), errs) || errs == "" && s.stderr.Len() > 0 {
		s.Errorf("exit status %d, %q, standard error %q; expected %d, %q, %q", got, rest, s.stderr.String(), status, out, errs)
	}
}

// TestQrshPipes checks that qrsh with a command and without a terminal works in a pipeline like any
// other command.
func TestQrshPipes(t *testing.T) {
	t.Parallel()
	qrshPipes(t, newMachine(t, 2))
}

// TestFrontQrsh does what TestQrshPipes does, with a daemon of two processes.
func TestFrontQrsh(t *testing.T) {
	t.Parallel()
	m := newFront(t, 2)
	qrshPipes(t, m)
	s := m.at(someUsers(t, 1)[0], "qrsh", "-now", "n", "-wd", "/")
	s.See("not available") // nologin(8), the shell of the user
	if status := s.Status(); status != 1 {
		t.Errorf("qrsh ended with status %d, expected 1", status)
	}
	m.refusedNothing()
}

func qrshPipes(t *testing.T, m *machine) {
	t.Helper()
	m.start()
	u := someUsers(t, 1)[0]

	binary := make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(binary)
	s := m.qrsh(u, "cat")
	sent := make(chan error, 1)
	go func() {
		_, err := s.in.Write(binary)
		sent <- errors.Join(err, s.in.Close())
	}()
	got, err := io.ReadAll(s.out)
	if err != nil || !bytes.Equal(got, binary) {
		t.Errorf("%d bytes came through, %v, and not the %d that were sent", len(got), err, len(binary))
	}
	s.ends(0, "", "")
	if err := <-sent; err != nil {
		t.Error(err)
	}

	s = m.qrsh(u, "tty; echo told >&2; exit 7")
	s.ends(7, "not a tty\n", "told\n")
	s = m.qrsh(u, "tty | grep -c pts/; exit 7", "-pty", "y")
	s.ends(7, "1\r\n", "")
	s = m.qrsh(u, "exec <&-; echo closed")
	s.line("closed")
	s.ends(0, "", "")

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nowhere := m.command(ctx, u, "qrsh", "-now", "n", "-wd", "/", "-noshell", "/bin/sh", "-c", "exec yes")
	var said strings.Builder
	nowhere.Stdout, nowhere.Stderr = full, &said
	if _ = nowhere.Run(); nowhere.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left") {
		t.Errorf("%v, %q", nowhere.ProcessState, said.String())
	}

	s = m.qrsh(u, "yes")
	s.line("y")
	s.stdout.Close()
	s.out.Reset(strings.NewReader(""))
	s.ends(128+int(syscall.SIGPIPE), "", "")

	s = m.qrsh(u, "echo runs; exec sleep 1000")
	s.line("runs")
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	s.ends(128+int(syscall.SIGINT), "", "for deletion")

	s = m.qrsh(u, "echo runs; exec sleep 1000")
	s.line("runs")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	m.until("nothing is left of what has lost its client", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// TestQrshOutlivesTheDaemon checks that a session goes on with the next daemon, and that qrsh fails if
// output or input may be lost.
func TestQrshOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	qrshOutlives(t, newMachine(t, 3))
}

// TestFrontQrshOutlives does what TestQrshOutlivesTheDaemon does, with a daemon of two processes.
func TestFrontQrshOutlives(t *testing.T) {
	t.Parallel()
	m := newFront(t, 3)
	qrshOutlives(t, m)
	m.refusedNothing()
}

func qrshOutlives(t *testing.T, m *machine) {
	t.Helper()
	m.start()
	u := someUsers(t, 1)[0]
	goes := m.qrsh(u, "read x; echo $x; wc -c; echo told >&2; exit 3")
	if _, err := io.WriteString(goes.in, "begun\n"); err != nil {
		t.Error(err)
	}
	goes.line("begun")
	lost := m.qrsh(u, "echo begun; sleep 1000; wc -c")
	lost.line("begun")
	go func() { _, _ = io.Copy(lost.in, endless{}) }()
	terminal := m.qrsh(u, "stty -echo; echo begun; read x; echo got $x; exit 4", "-pty", "y")
	terminal.line("begun\r")

	daemon, gone := m.daemon.Process()
	if err := daemon.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-gone
	m.start()
	lost.ends(1, "", "was lost")
	if _, err := io.WriteString(goes.in, "1234567890"); err != nil {
		t.Error(err)
	}
	goes.in.Close()
	goes.ends(3, "10\n", "attached to job")
	if got := goes.stderr.String(); !strings.HasSuffix(got, "told\n") {
		t.Errorf("standard error %q", got)
	}
	if _, err := io.WriteString(terminal.in, "word\n"); err != nil {
		t.Error(err)
	}
	terminal.ends(4, "got word\r\n", "attached to job")
	m.until("no job is left, not even that which has lost its input", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// endless is an endless input.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
