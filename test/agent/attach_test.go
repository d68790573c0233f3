package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
)

// person is a user at a terminal in which execd attach runs.
type person struct {
	*node
	keys *os.File // the other side of the terminal
	cmd  *exec.Cmd
	seen string
}

// sitDown runs execd attach for job 1 in a new terminal.
func (n *node) sitDown(ctx context.Context, args ...string) *person {
	n.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		n.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		n.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		n.Fatal(err)
	}
	defer terminal.Close()
	p := &person{node: n, keys: keys}
	p.resize(30, 100)
	p.cmd = exec.CommandContext(ctx, filepath.Join(n.bin, "execd"), append(append([]string{"attach", "--socket", n.socket}, args...), "1")...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *person) resize(rows, cols uint16) {
	p.Helper()
	if err := unix.IoctlSetWinsize(int(p.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		p.Fatal(err)
	}
}

func (p *person) enter(text string) {
	p.Helper()
	if _, err := p.keys.WriteString(text); err != nil {
		p.Fatal(err)
	}
}

// expect reads until the terminal shows a text.
func (p *person) expect(want string) {
	p.Helper()
	for b := make([]byte, 1); !strings.Contains(p.seen, want); {
		if _, err := p.keys.Read(b); err != nil {
			p.Fatalf("%q and %v, expected %q", p.seen, err, want)
		}
		p.seen += string(b)
	}
	_, p.seen, _ = strings.Cut(p.seen, want)
}

// leaves waits for the exit of execd attach.
func (p *person) leaves(status int) {
	p.Helper()
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.Errorf("execd attach ends with %d, expected %d; %q", got, status, p.seen)
	}
}

// shell starts job 1, a shell with a terminal.
func (n *node) shell(ctx context.Context) {
	n.Helper()
	s := n.job(1, "")
	s.Script, s.Interactive = "", &api.Interactive{Rows: 24, Cols: 80, Term: "vt100"}
	s.Command = []string{"-N", "shell", "-wd", "/", "-b", "y", "-shell", "n", "/bin/sh"}
	n.mustStart(ctx, s)
}

// TestAttach checks that a user works in a job while agents are restarted; another client then
// attaches in the user's place.
func TestAttach(t *testing.T) {
	n := newNode(t, "")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.shell(ctx)
	p := n.sitDown(ctx)
	p.enter("stty -echo; PS1=; WORD=kept; echo size $(stty size)\n")
	p.expect("size 30 100")
	p.resize(40, 120)
	// The new size and the input after it use different channels.
	p.enter("until test \"$(stty size)\" = '40 120'; do sleep 0.1; done; trap : INT; echo go; sleep 1000; echo interrupted\n")
	p.expect("go")
	p.until(ctx, "\x03", "interrupted") // Ctrl-C is for the job

	n.agent.Kill()
	p.expect("the agent is away, and the job goes on without it")
	n.start()
	p.expect("attached again")
	p.enter("echo $WORD\n")
	p.expect("kept")
	p.enter("~.")
	p.expect("detached from job 1, which goes on")
	p.leaves(0)

	p = n.sitDown(ctx, "--escape", "none")
	p.enter("echo ~. $WORD\n")
	p.expect("~. kept")
	other := exec.CommandContext(ctx, filepath.Join(n.bin, "execd"), "attach", "--socket", n.socket, "1")
	other.Stdin = strings.NewReader("echo $WORD by another; exit 5\n")
	out, err := other.CombinedOutput()
	if other.ProcessState.ExitCode() != 5 || !strings.Contains(string(out), "kept by another") {
		t.Errorf("%v, %q", err, out)
	}
	p.expect("another client has attached")
	p.leaves(125)
	n.acknowledge(ctx)
}

// until types something repeatedly until it has an effect: the shell may not be ready yet.
func (p *person) until(ctx context.Context, keys, want string) {
	p.Helper()
	found := make(chan struct{})
	go func() {
		defer close(found)
		p.expect(want)
	}()
	for {
		p.enter(keys)
		short, cancel := context.WithTimeout(ctx, patience/1000)
		select {
		case <-found:
		case <-short.Done():
		}
		cancel()
		select {
		case <-found:
			return
		case <-ctx.Done():
			p.Fatal(ctx.Err())
		default:
		}
	}
}

// TestHangUp checks that the agent waits for a client that disappears without closing for the time of
// --hang-up.
func TestHangUp(t *testing.T) {
	n := newNode(t, "")
	n.args = []string{"--hang-up", "100ms"}
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.shell(ctx)
	p := n.sitDown(ctx)
	p.enter("echo ready $((1))\n")
	p.expect("ready 1")
	if err := p.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.leaves(128 + int(unix.SIGHUP))
	n.acknowledge(ctx)
	if log := n.log(); !strings.Contains(log, "no client has attached again") {
		t.Error(log)
	}
}

// acknowledge waits for the end of job 1, and acknowledges it.
func (n *node) acknowledge(ctx context.Context) {
	n.Helper()
	over := context.Canceled // ends the stream
	err := n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || r.Job.Outcome == nil {
			return nil
		}
		if err := n.client.Acknowledge(ctx, r.Number); err != nil {
			return err
		}
		return over
	})
	if err != over { //nolint:errorlint // it is this one
		n.Errorf("%v\n%s", err, n.log())
	}
}
