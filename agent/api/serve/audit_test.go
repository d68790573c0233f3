package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/audit"
)

// audited runs a server with an audit log, and returns a function that reads its new records.
func audited(t *testing.T, prepare func(*Options)) (*running, func() []audit.Record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Path: path, Host: "n1", Daemon: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	r := run(t, func(o *Options) {
		o.Audit = log
		if prepare != nil {
			prepare(o)
		}
	})
	seen := 0
	return r, func() (list []audit.Record) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text[seen:]) {
			var x audit.Record
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			list = append(list, x)
		}
		seen = len(text)
		return list
	}
}

// TestOrdersAreAudited checks that an order of a master has a record before it is carried out, and
// another one if it is refused. The records contain no values of variables.
func TestOrdersAreAudited(t *testing.T) {
	r, news := audited(t, func(o *Options) {})
	c := r.client()
	ctx := t.Context()
	start := aStart(7)
	start.Command = []string{"-N", "x", "-v", "TOKEN=secret,B=secret", "job.sh"}
	start.Environment["TOKEN"] = "secret"
	if _, err := c.Start(ctx, aStart(7)); err != nil { // of which some of the others are
		t.Fatal(err)
	}
	news()
	tried := map[string]bool{}
	type row struct {
		call func() error
		want []string
	}
	rows := map[api.Method]row{
		api.MethodStart:       {func() error { _, err := c.Start(ctx, start); return err }, []string{`"kind":"job"`, `"name":"7"`, `"change":"added"`, `"owner":{"is":"alice"}`, `"all.q@n1 2"`, `"TOKEN,B"`}},
		api.MethodStartBatch:  {func() error { _, err := c.StartBatch(ctx, []api.Start{aStart(8), aStart(9)}); return err }, []string{`"name":"8"`, `"name":"9"`}},
		api.MethodSignal:      {func() error { return c.Signal(ctx, api.ID{Job: 7}, api.Suspend) }, []string{`"args":["suspend","7"]`}},
		api.MethodSignalQueue: {func() error { return c.SignalQueue(ctx, "all.q", api.SuspendQueue) }, []string{`"args":["suspend_queue","all.q"]`}},
		api.MethodDrain:       {func() error { return c.Drain(ctx, "a disk fails") }, []string{`"draining":{`, `"is":"a disk fails"`}},
		api.MethodResume:      {func() error { return c.ResumeHost(ctx) }, []string{`"draining":{`}},
		api.MethodShutdown:    {func() error { return c.Shutdown(ctx, true) }, []string{`"args":["end_jobs=true"]`}},
		api.MethodConfigure:   {func() error { _, err := c.Configure(ctx, nil); return err }, nil},
		api.MethodStartTask: {func() error {
			_, err := c.StartTask(ctx, api.TaskStart{Job: 7, Key: "1", Owner: "alice", Command: []string{"true"}, Environment: map[string]string{"TOKEN": "secret"}})
			return err
		}, []string{`"kind":"task"`, `"TOKEN"`}},
		api.MethodAttach: {func() error {
			t, err := c.Attach(ctx, api.ID{Job: 7})
			if err == nil {
				t.Close()
			}
			return nil // the job may have no terminal
		}, []string{`"args":["7"]`}},
	}
	for _, name := range []api.Method{ // a host that is drained takes no starts
		api.MethodStart, api.MethodStartBatch, api.MethodStartTask, api.MethodAttach, api.MethodSignal, api.MethodSignalQueue,
		api.MethodConfigure, api.MethodDrain, api.MethodResume, api.MethodShutdown,
	} {
		test := rows[name]
		tried[string(name)] = true
		r.agent.err = nil
		if err := test.call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		list := news()
		text, _ := json.Marshal(list)
		if len(list) == 0 || list[0].Outcome != audit.Begun || list[0].Command != string(name) || list[0].Caller.Via != "socket" || list[0].Caller.PID != int32(os.Getpid()) || *list[0].Caller.UID != uint32(os.Getuid()) {
			t.Errorf("%s: %s", name, text)
		}
		if name != api.MethodAttach && len(list) != 1 {
			t.Errorf("%s: %d records: %s", name, len(list), text)
		}
		for _, want := range test.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the record has not %s: %s", name, want, text)
			}
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s: a value of a variable: %s", name, text)
		}
	}
	// Those that are refused.
	r.agent.err = &agent.Error{Code: agent.FailedPrecondition, Err: errors.New("no room")}
	_ = c.Drain(ctx, "x")
	_, _ = c.StartBatch(ctx, []api.Start{aStart(10)})
	list := news()
	if len(list) != 4 || list[1].ID != list[0].ID || list[1].Outcome != audit.Refused || !strings.Contains(list[1].Error, "no room") ||
		list[3].ID != list[2].ID || list[3].Outcome != audit.Refused || !strings.Contains(list[3].Error, "job 10: failed_precondition: no room") {
		t.Errorf("%+v", list)
	}
	for name, m := range table() {
		besides := []api.Method{api.MethodAdmit, api.MethodFullReport, api.MethodReports, api.MethodAcknowledge, api.MethodSetTickets}
		switch {
		case m.changes != tried[string(name)]:
			t.Errorf("%s: is it for the audit log? %v; tried: %v", name, m.changes, tried[string(name)])
		case m.orders && !m.changes && !slices.Contains(besides, name):
			t.Errorf("%s is an order without a record", name)
		}
	}
}

// TestStrangersAreAudited checks that a caller without permission leaves a record with its address.
func TestStrangersAreAudited(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 40)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, news := audited(t, func(o *Options) { o.Loopback = &Loopback{Address: "127.0.0.1:0", TokenFile: token} })
	address := r.Addresses()[1].String()
	for word, want := range map[string]audit.Outcome{strings.Repeat("x", 40): audit.Refused, strings.Repeat("t", 40): audit.Begun} {
		c := dial(t, api.Options{Address: address, Token: word, RetryFor: -1, Timeout: patience})
		_ = c.Drain(t.Context(), "x")
		list := news()
		if len(list) != 1 || list[0].Outcome != want || list[0].Caller.Via != "loopback" || !strings.HasPrefix(list[0].Caller.Remote, "127.0.0.1:") ||
			list[0].Caller.Token != (want == audit.Begun) {
			t.Errorf("%+v", list)
		}
		if text, _ := json.Marshal(list); strings.Contains(string(text), word) {
			t.Errorf("the token is in the record: %s", text)
		}
	}
}
