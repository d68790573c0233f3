package agent

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
)

// TestTerminalOutlivesAgent checks that a shell survives a restart of the agent: a client that
// attaches again finds its variables.
func TestTerminalOutlivesAgent(t *testing.T) {
	n := newNode(t, "")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := n.job(1, "")
	s.Script, s.Interactive = "", &api.Interactive{Rows: 24, Cols: 80, Term: "vt100"}
	s.Command = []string{"-N", "shell", "-wd", "/", "-b", "y", "-shell", "n", "/bin/sh"}
	n.mustStart(ctx, s)
	terminal := n.attach(ctx)
	n.enter(terminal, "stty -echo; WORD=kept; echo ready $PPID\n", "ready ")
	n.agent.Kill()
	if _, err := io.ReadAll(terminal); err == nil {
		t.Error("the end of the agent is taken for that of the job")
	}
	n.start()
	terminal = n.attach(ctx)
	n.enter(terminal, "echo $WORD $(stty size)\n", "kept 24 80")
	if _, err := terminal.Write([]byte("exit 5\n")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(terminal); err != nil || terminal.Exit().Status != 5 {
		t.Errorf("%v, %+v", err, terminal.Exit())
	}
	j, err := n.client.Job(ctx, api.ID{Job: 1})
	if err == nil {
		err = n.client.AcknowledgeJob(ctx, api.ID{Job: 1}, j.Number)
	}
	if err != nil {
		t.Error(err)
	}
}

// attach attaches to job 1, as soon as the agent answers.
func (n *node) attach(ctx context.Context) *api.Terminal {
	n.Helper()
	if _, err := n.client.Health(ctx); err != nil { // the client retries
		n.Fatal(err)
	}
	terminal, err := n.client.Attach(ctx, api.ID{Job: 1})
	if err != nil {
		n.Fatalf("%v\n%s", err, n.log())
	}
	n.Cleanup(func() { terminal.Close() })
	return terminal
}

// enter types a text, and reads until the answer has arrived.
func (n *node) enter(terminal *api.Terminal, text, want string) {
	n.Helper()
	if _, err := terminal.Write([]byte(text)); err != nil {
		n.Fatal(err)
	}
	seen := ""
	for !strings.Contains(seen, want) {
		var b [1]byte
		if _, err := terminal.Read(b[:]); err != nil {
			n.Fatalf("%q and %v, expected %q", seen, err, want)
		}
		seen += string(b[:])
	}
}
