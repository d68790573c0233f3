package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// ordered is an agent whose methods return err.
type ordered struct {
	agent.Commands
	err error
}

func (o *ordered) Health() agent.Health { return agent.Health{Host: "n1", Draining: "before"} }

func (o *ordered) Job(id job.ID) (agent.JobReport, bool) {
	return agent.JobReport{ID: id, Owner: "alice", State: agent.Running}, true
}

func (o *ordered) Start(context.Context, *agent.Start) (agent.JobReport, error) {
	return agent.JobReport{}, o.err
}

func (o *ordered) StartTask(context.Context, *agent.TaskStart) (agent.JobReport, error) {
	return agent.JobReport{}, o.err
}
func (o *ordered) Signal(context.Context, job.ID, agent.Order) error      { return o.err }
func (o *ordered) SignalQueue(context.Context, string, agent.Order) error { return o.err }
func (o *ordered) Drain(context.Context, string) error                    { return o.err }
func (o *ordered) Resume(context.Context) error                           { return o.err }
func (o *ordered) Shutdown(bool)                                          {}

// TestOrdersOfALinkAreAudited checks that each order of a master that does not use the HTTP interface
// has its record, and a second one if the agent refuses the order.
func TestOrdersOfALinkAreAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := &ordered{}
	c := auditedCommands{o, log, audit.Caller{Via: "gridengine"}}
	ctx, id := t.Context(), job.ID{Job: 7}
	orders := map[string]func() error{
		"Start": func() error {
			_, err := c.Start(ctx, &agent.Start{ID: id, Owner: "alice", Request: &submit.Request{Name: "x", Env: []submit.Variable{{Name: "TOKEN", Value: "secret"}}}})
			return err
		},
		"StartTask": func() error {
			_, err := c.StartTask(ctx, &agent.TaskStart{Job: id, Key: "1", Owner: "alice"})
			return err
		},
		"Signal":      func() error { return c.Signal(ctx, id, agent.Kill) },
		"SignalQueue": func() error { return c.SignalQueue(ctx, "all.q", agent.SuspendQueue) },
		"Drain":       func() error { return c.Drain(ctx, "now") },
		"Resume":      func() error { return c.Resume(ctx) },
		"Shutdown":    func() error { c.Shutdown(true); return o.err },
	}
	for name, order := range orders {
		for _, refusal := range []error{nil, errors.New("no room")} {
			o.err = refusal
			if err := order(); !errors.Is(err, refusal) {
				t.Errorf("%s: %v", name, err)
			}
			text, err := os.ReadFile(path)
			if err != nil || os.Truncate(path, 0) != nil {
				t.Fatal(err)
			}
			var got []audit.Outcome
			for line := range bytes.Lines(text) {
				var r audit.Record
				if err := json.Unmarshal(line, &r); err != nil || r.Command != name || r.Caller.Via != "gridengine" {
					t.Errorf("%s: %s, %v", name, line, err)
				}
				got = append(got, r.Outcome)
			}
			want := []audit.Outcome{audit.Begun}
			if refusal != nil && name != "Shutdown" {
				want = append(want, audit.Refused)
			}
			if !slices.Equal(got, want) || strings.Contains(string(text), "secret") {
				t.Errorf("%s with %v: %s", name, refusal, text)
			}
		}
	}
	besides := []string{ // what changes nothing, or is what each master does all the time
		"Acknowledge", "AcknowledgeJob", "Admit", "Attach", "Configure", "FullReport", "Health", "InTurn", "Job", "Jobs", "Reports", "SawEpoch", "SetTickets",
	}
	for m := range reflect.TypeFor[agent.Commands]().Methods() {
		if _, tried := orders[m.Name]; tried == slices.Contains(besides, m.Name) {
			t.Errorf("%s: is it an order with a record?", m.Name)
		}
	}
}
