package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/submit"
)

// patience is how long what must happen may take.
const patience = 3 * time.Minute

// running is a server on a socket, with an agent that does nothing.
type running struct {
	*Server
	t      *testing.T
	agent  *fake
	socket string
	stop   func()
}

// run runs a server until the end of the test, and then looks for what is left.
func run(t *testing.T, prepare func(o *Options)) *running {
	t.Helper()
	before := runtime.NumGoroutine()
	o := Options{Socket: filepath.Join(directory(t), "agent.sock"), Version: "1.0", Limits: Limits{Grace: patience}}
	o.Notify = func(err error) { t.Log("notified:", err) }
	if prepare != nil {
		prepare(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, t: t, agent: newFake(), socket: o.Socket}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, r.agent) }()
	over := false
	r.stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	}
	t.Cleanup(func() {
		r.stop()
		if !soon(func() bool { return runtime.NumGoroutine() <= before }) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines are left, before there were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return r
}

// soon waits for something that has no event.
func soon(ok func() bool) bool {
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			return ok()
		case <-tick.C:
		}
	}
	return true
}

// directory returns a directory with a short name, which sockets need, that others can
// enter.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "execd-api") //nolint:usetesting // that of testing has a name too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// client returns a client that does not retry, unless change sets RetryFor.
func (r *running) client(change ...func(o *api.Options)) *api.Client {
	r.t.Helper()
	o := api.Options{Socket: r.socket, RetryFor: -1, Timeout: patience}
	for _, f := range change {
		f(&o)
	}
	return dial(r.t, o)
}

func dial(t *testing.T, o api.Options) *api.Client {
	t.Helper()
	c, err := api.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// aStart returns a start that a fake takes.
func aStart(number int) api.Start {
	return api.Start{
		Job: number, Owner: "alice", Command: []string{"-N", "x", "-l", "h_rt=60", "job.sh", "arg"}, Script: "#!/bin/sh\n#$ -m e\nsleep 1\n",
		Environment: map[string]string{"PATH": "/bin", "HOME": "/home/alice"}, Directory: "/home/alice", Submitted: began,
		Grants: []api.Grant{{Queue: "all.q", Host: "n1", Slots: 2}},
	}
}

// wantCode checks an error of the client.
func wantCode(t *testing.T, what string, err error, code api.Code, text string) {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e == nil || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("%s: got %v; want %s: ...%s...", what, err, code, text)
	}
}

func submitVariable(name, value string) submit.Variable {
	return submit.Variable{Name: name, Value: value}
}

// TestAdditionalMethodsOnSocket checks the calls on the socket that belong to the program of which
// the agent is a part.
func TestAdditionalMethodsOnSocket(t *testing.T) {
	type word struct{ Text string }
	r := run(t, func(o *Options) {
		o.Methods = map[string]Method{"/test.Service/Echo": {Body: 2 << 20, Do: func(_ context.Context, c *Call) (any, *api.Error) {
			q, err := decode[word](c.Body)
			if err != nil {
				return nil, err
			}
			if q.Text == "" {
				return nil, refuse(api.InvalidArgument, "no text")
			}
			return word{c.User.Name + " says " + q.Text[:1]}, nil
		}}}
	})
	c := dial(t, api.Options{Socket: r.socket, RetryFor: -1})
	var answer word
	if err := c.Call(t.Context(), "/test.Service/Echo", word{strings.Repeat("a", 1<<20)}, &answer); err != nil || !strings.HasSuffix(answer.Text, " says a") {
		t.Errorf("%q, %v", answer.Text, err)
	}
	wantCode(t, "an empty text", c.Call(t.Context(), "/test.Service/Echo", word{}, &answer), api.InvalidArgument, "no text")
	wantCode(t, "more than it takes", c.Call(t.Context(), "/test.Service/Echo", word{strings.Repeat("a", 2<<20)}, &answer), api.ResourceExhausted, "2097152")
	wantCode(t, "no such method", c.Call(t.Context(), "/test.Service/Other", word{}, &answer), api.Unimplemented, "Other")
}
