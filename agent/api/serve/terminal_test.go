package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestTerminal attaches a client to a terminal, and then a second client, which replaces the first.
func TestTerminal(t *testing.T) {
	m := realAgent(t)
	defer m.stop()
	ctx := t.Context()
	start := api.Start{
		Job: 7, Owner: m.owner, Directory: m.dir, Grants: []api.Grant{{Queue: "all.q", Host: "n1", Slots: 1}},
		Command:     []string{"-N", "shell", "-wd", m.dir, "-shell", "n", "-b", "y", "/bin/sh"},
		Interactive: &api.Interactive{Rows: 24, Cols: 80, Term: "vt100"},
	}
	if _, err := m.Start(ctx, start); err != nil {
		t.Fatal(err)
	}
	former := mustAttach(t, m.Client, 7)
	see(t, former, "$ ", "stty -echo; stty size; tty; echo $TERM\n", "24 80\r\n/dev/pts/")
	terminal := mustAttach(t, m.Client, 7)
	_, err := io.ReadAll(former)
	wantCode(t, "the former client", err, api.Aborted, "another client")
	if err := terminal.Resize(50, 132); err != nil {
		t.Error(err)
	}
	see(t, terminal, "", "stty size\n", "50 132")
	if err := terminal.Detach(); err != nil {
		t.Error(err)
	}
	terminal = mustAttach(t, m.Client, 7)
	if _, err := terminal.Write([]byte("kill -HUP $$\n")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(terminal); err != nil {
		t.Error(err)
	}
	if x := terminal.Exit(); x == nil || x.Status != 129 {
		t.Errorf("the exit is %+v", x)
	}

	// An agent that ends says so.
	start.Job = 8
	if _, err := m.Start(ctx, start); err != nil {
		t.Fatal(err)
	}
	terminal = mustAttach(t, m.Client, 8)
	see(t, terminal, "$ ", "stty -echo; echo on\n", "on\r\n")
	if err := m.Signal(ctx, api.ID{Job: 8}, api.Kill); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(terminal); err != nil || terminal.Exit() == nil || terminal.Exit().Status != 137 {
		t.Errorf("%v, %+v", err, terminal.Exit())
	}

	start.Job, start.Interactive.Login = 9, true
	_, err = m.Start(ctx, start)
	wantCode(t, "a command and a login shell", err, api.InvalidArgument, "a login shell takes no command")
}

// silent is the terminal of a job that does nothing. It says how its holder has gone.
type silent struct {
	once sync.Once
	gone chan string
	over chan struct{}
}

func (s *silent) leave(how string) {
	s.once.Do(func() {
		s.gone <- how
		close(s.over)
	})
}

func (s *silent) Detach()                     { s.leave("with a word") }
func (s *silent) Leave()                      { s.leave("with the agent") }
func (s *silent) Write(p []byte) (int, error) { return len(p), nil }
func (s *silent) Resize(uint16, uint16) error { return nil }
func (s *silent) Pipes() bool                 { return false }
func (s *silent) EndInput() error             { return nil }

func (s *silent) ReadErrors([]byte) (int, error) { return 0, io.EOF }

// Close lets other goroutines send their messages first.
func (s *silent) Close() {
	for range 100 {
		runtime.Gosched()
	}
	s.leave("without a word")
}

func (s *silent) Read([]byte) (int, error) {
	<-s.over
	return 0, agent.ErrDetached
}

func (s *silent) Exit(ctx context.Context) (*job.Outcome, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLostConnectionIsNotDetach checks that a lost connection is never taken for a detach:
// otherwise the job would not be ended.
func TestLostConnectionIsNotDetach(t *testing.T) {
	r := run(t, nil)
	gone := make(chan string, 1)
	r.agent.terminal = func() agent.Terminal { return &silent{gone: gone, over: make(chan struct{})} }
	for n := range 200 {
		terminal := mustAttach(t, r.client(), 7)
		leave, want := terminal.Close, "without a word"
		if n%2 == 1 {
			leave, want = terminal.Detach, "with a word"
		}
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if how := <-gone; how != want {
			t.Fatalf("number %d has gone %s, expected %s", n, how, want)
		}
	}
	// One who is cut off as the agent ends has said nothing either, but may come back.
	mustAttach(t, r.client(), 7)
	r.stop()
	if how := <-gone; how != "with the agent" {
		t.Errorf("who is there when the agent ends has gone %s", how)
	}
}

func mustAttach(t *testing.T, c *api.Client, number int) *api.Terminal {
	t.Helper()
	terminal, err := c.Attach(t.Context(), api.ID{Job: number})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal
}

// see waits for a prompt, types and waits for the answer.
func see(t *testing.T, terminal *api.Terminal, prompt, text, want string) {
	t.Helper()
	until(t, terminal, prompt)
	if _, err := terminal.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	until(t, terminal, want)
}

// until reads no more than what it waits for.
func until(t *testing.T, terminal *api.Terminal, want string) {
	t.Helper()
	seen := ""
	for !strings.Contains(seen, want) {
		var b [1]byte
		if _, err := terminal.Read(b[:]); err != nil {
			t.Fatalf("%q and %v, expected %q", seen, err, want)
		}
		seen += string(b[:])
	}
}

// TestAttachPermission checks that users can attach to their own jobs only.
func TestAttachPermission(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := run(t, func(o *Options) { o.Users = someUsers })
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7}, Owner: "alice", State: agent.Running})
	for uid, want := range map[uint32]string{bob: "job 7 is of alice", alice: "expected execd-terminal/1"} {
		if answer := r.as(uid, [2]string{"Attach", `{"job": 7}`})[0]; !strings.Contains(answer, want) {
			t.Errorf("user id %d is answered %q, expected %q", uid, answer, want)
		}
	}
	if said := r.agent.said(); len(said) > 0 {
		t.Errorf("the agent was told %q", said)
	}
	_, err := dial(t, api.Options{Socket: r.socket}).Attach(t.Context(), api.ID{Job: 7})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.FailedPrecondition {
		t.Error(err)
	}
}

// clogged is the terminal of a job that takes no input, and writes without end.
type clogged struct {
	silent
	pipes bool
}

func (c *clogged) Pipes() bool { return c.pipes }

func (c *clogged) Write([]byte) (int, error) {
	<-c.over
	return 0, agent.ErrDetached
}

func (c *clogged) Read(p []byte) (int, error) {
	select {
	case <-c.over:
		return 0, agent.ErrDetached
	default:
		return len(p), nil
	}
}

// attachClogged attaches to a job that takes nothing.
func attachClogged(t *testing.T, pipes bool, change func(*Options)) (_ *api.Terminal, gone chan string) {
	t.Helper()
	r := run(t, change)
	gone = make(chan string, 1)
	r.agent.terminal = func() agent.Terminal {
		return &clogged{silent{gone: gone, over: make(chan struct{})}, pipes}
	}
	terminal := mustAttach(t, r.client(), 7)
	if terminal.Pipes() != pipes {
		t.Errorf("the client thinks that the job has pipes: %t", terminal.Pipes())
	}
	return terminal, gone
}

// TestFullPipe checks that the server notices a disconnected client although the job does not read
// its input.
func TestFullPipe(t *testing.T) {
	terminal, gone := attachClogged(t, true, nil)
	if n, err := terminal.Write(make([]byte, api.InputWindow)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if terminal.Arrived() {
		t.Error("what the job has not taken is said to have arrived")
	}
	terminal.Close()
	if how := <-gone; how != "without a word" {
		t.Errorf("the client has gone %s", how)
	}
}

// narrow is the terminal of a job with pipes that takes a part of its input.
type narrow struct {
	silent
	takes int
	full  chan struct{}
}

func (n *narrow) Pipes() bool { return true }

func (n *narrow) Write([]byte) (int, error) {
	close(n.full)
	<-n.over
	return n.takes, agent.ErrDetached
}

// TestInputLeftWithTheAgent checks that input which the job has not read when the agent ends is not
// acknowledged: the client sends it again to the next agent.
func TestInputLeftWithTheAgent(t *testing.T) {
	for size, want := range map[int]bool{100: false, 40: true} {
		r := run(t, nil)
		full := make(chan struct{})
		r.agent.terminal = func() agent.Terminal {
			return &narrow{silent{gone: make(chan string, 1), over: make(chan struct{})}, 40, full}
		}
		terminal := mustAttach(t, r.client(), 7)
		if _, err := terminal.Write(make([]byte, size)); err != nil {
			t.Error(err)
		}
		<-full
		r.stop()
		err := terminal.Copy(io.Discard, io.Discard)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Unavailable || e.Err != nil {
			t.Errorf("the end is %v", err)
		}
		if terminal.Arrived() != want {
			t.Errorf("40 of %d bytes were taken, and all are said to have arrived: %v", size, !want)
		}
	}
}

// halfClosed is the terminal of a job that has closed its standard output and goes on, until
// somebody else attaches.
type halfClosed struct {
	silent
	exits bool // it has closed its standard error, too
}

func (h *halfClosed) Pipes() bool              { return true }
func (h *halfClosed) Read([]byte) (int, error) { return 0, io.EOF }

func (h *halfClosed) ReadErrors([]byte) (int, error) {
	if h.exits {
		return 0, io.EOF
	}
	return 0, agent.ErrTaken
}

func (h *halfClosed) Exit(ctx context.Context) (*job.Outcome, error) {
	if h.exits {
		return nil, agent.ErrTaken
	}
	return &job.Outcome{}, nil
}

// TestAttachedClientOfClosedOutputIsReplaced attaches a second client to a job that has closed its
// output. The agent tells the first client that it was replaced, not how the job ends, because that client
// has seen only a part of the output.
func TestAttachedClientOfClosedOutputIsReplaced(t *testing.T) {
	for _, exits := range []bool{false, true} {
		r := run(t, nil)
		r.agent.terminal = func() agent.Terminal {
			return &halfClosed{silent{gone: make(chan string, 1), over: make(chan struct{})}, exits}
		}
		terminal := mustAttach(t, r.client(), 7)
		err := terminal.Copy(io.Discard, io.Discard)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Aborted {
			t.Errorf("standard error closed, too: %v: the end is %v, %v", exits, err, terminal.Exit())
		}
	}
}

// TestInputWindow checks that the server disconnects a client that sends more than the window, or
// sends after the end of its input.
func TestInputWindow(t *testing.T) {
	for name, last := range map[string]api.FrameType{"too much": api.FrameData, "more behind the end": api.FrameEnd} {
		t.Run(name, func(t *testing.T) {
			r := run(t, nil)
			gone := make(chan string, 1)
			r.agent.terminal = func() agent.Terminal { return &clogged{silent{gone: gone, over: make(chan struct{})}, true} }
			conn, err := net.Dial("unix", r.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const body = `{"job":7}`
			fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s",
				api.Path, api.MethodAttach, len(body), api.TerminalProtocol, body)
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
				t.Fatalf("%q, %v", line, err)
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			sent := 0
			send := func(kind api.FrameType, size int) {
				if err := api.WriteFrame(conn, kind, make([]byte, size)); err != nil {
					t.Errorf("after %d bytes: %v", sent, err)
				}
				sent += size
			}
			for sent < api.InputWindow-api.MaxFrame {
				send(api.FrameData, api.MaxFrame)
			}
			if last == api.FrameEnd {
				send(last, 0)
			} else {
				send(last, api.MaxFrame)
			}
			select {
			case how := <-gone:
				t.Errorf("the client has gone %s before it did something wrong", how)
			default:
			}
			send(api.FrameData, 1)
			if how := <-gone; how != "without a word" {
				t.Errorf("the client has gone %s", how)
			}
		})
	}
}

// TestWrongFrames checks that a client that sends an invalid frame gets an error that describes it.
func TestWrongFrames(t *testing.T) {
	for name, c := range map[string]struct{ sends, says string }{
		"a type that there is none of": {"Q\x00\x00\x00\x00", "Q"},
		"a frame of the agent":         {"x\x00\x00\x00\x04\x00\x00\x00\x00", "frame type 'x' is not one that clients send"},
		"four gigabytes":               {"d\xff\xff\xff\xff", "has 4294967295 bytes"},
		"half a size":                  {"r\x00\x00\x00\x01x", "has 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, nil)
			gone := make(chan string, 1)
			r.agent.terminal = func() agent.Terminal { return &silent{gone: gone, over: make(chan struct{})} }
			conn, err := net.Dial("unix", r.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const body = `{"job":7}`
			fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s%s",
				api.Path, api.MethodAttach, len(body), api.TerminalProtocol, body, c.sends)
			text, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"invalid_argument"`) || !strings.Contains(string(text), c.says) {
				t.Errorf("the agent says %q", text)
			}
			<-gone
		})
	}
}

// TestSlowReader checks that a client that reads slowly, such as qrsh with a pager or on a stopped
// terminal, is not disconnected.
func TestSlowReader(t *testing.T) {
	for _, pipes := range []bool{false, true} {
		terminal, gone := attachClogged(t, pipes, func(o *Options) { o.Limits.Write = time.Millisecond })
		// It is full by now, for a hundred times as long as another may take.
		select {
		case how := <-gone:
			t.Errorf("pipes %t: the client has gone %s", pipes, how)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := io.CopyN(io.Discard, terminal, 10<<20); err != nil {
			t.Errorf("pipes %t: %v", pipes, err)
		}
	}
}
