package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/store"
	"github.com/execd-project/execd/submit"
)

// given is an agent that notes the script of the start that it is given.
type givenScript struct {
	agent.Commands
	script []byte
}

func (g *givenScript) Start(_ context.Context, s *agent.Start) (agent.JobReport, error) {
	g.script = s.Request.Script
	return agent.JobReport{}, nil
}

// TestScriptsOfAnOlderStore checks that scripts that an older version has stored in records are
// moved out of the store when the daemon starts, and reach the agent. If they cannot be moved, they
// stay in the store, and the daemon starts nevertheless.
func TestScriptsOfAnOlderStore(t *testing.T) {
	for name, blocked := range map[string]bool{"moved": false, "left": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cluster, err := qconf.BuiltinOn("node1", 1)
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(filepath.Join(dir, storeFile))
			if err != nil {
				t.Fatal(err)
			}
			old := cell.New(1, cluster, cell.Options{})
			text := "#!/bin/sh\n" + strings.Repeat("#", 50<<10)
			for i := range 3 {
				r := &submit.Request{Command: "job.sh", Name: "job.sh", Script: fmt.Appendf(nil, "%s%d", text, i/2)}
				if _, err := old.Submit(1, cell.Caller{User: "alice", Group: "users", Host: "node1"}, r); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(s.Commit(translate(old.Changes())), s.Close()); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(dir, scriptsFolder)
			if blocked {
				if err := os.WriteFile(folder, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := New(&daemon.Host{
				Name: "node1", Spool: dir, Log: hclog.NewNullLogger(),
				Read: func() (*qconf.Cluster, error) { return cluster, nil },
			}, clock.System())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}()
			entries, _ := os.ReadDir(folder)
			if want := map[bool]int{false: 2, true: 0}[blocked]; len(entries) != want {
				t.Errorf("%d files, expected %d", len(entries), want)
			}
			for i, j := range m.cell.Jobs() {
				sum, separate := j.SeparateScript()
				if separate == blocked {
					t.Errorf("job %d: in a file: %v", j.ID(), separate)
				}
				g := &givenScript{}
				if err := m.scripts.start(t.Context(), g, starting{&agent.Start{Request: j.Request()}, sum}); err != nil {
					t.Error(err)
				}
				if want := fmt.Sprintf("%s%d", text, i/2); string(g.script) != want {
					t.Errorf("job %d is started with %d bytes, expected %d", j.ID(), len(g.script), len(want))
				}
			}
		})
	}
}

// TestLostScript checks that a job whose script is lost goes into the error state and is not tried
// repeatedly, and that a temporary fault of the disk does not count against the job.
func TestLostScript(t *testing.T) {
	k := newKept(t.TempDir())
	s := starting{&agent.Start{Request: &submit.Request{}}, cell.ScriptSum([]byte("lost"))}
	err := k.start(t.Context(), &givenScript{}, s)
	if e, ok := errors.AsType[*agent.Error](err); !ok || passing[e.Code] || !strings.Contains(err.Error(), "the file is missing") {
		t.Errorf("%v", err)
	}
}
