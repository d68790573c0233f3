package serve

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// master is a client of an agent that runs jobs, with the reports that it has received.
type master struct {
	*api.Client
	t     *testing.T
	owner string
	dir   string // for the files of jobs
	after uint64
	last  map[api.ID]api.Job
	stop  func()
}

// realAgent runs an agent with a queue of four slots.
func realAgent(t *testing.T) *master {
	t.Helper()
	programs := directory(t)
	shepherd := filepath.Join(programs, launch.ShepherdName)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", shepherd, "../../../cmd/shepherd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	owner, err := user.Current()
	if err == nil && owner.Uid == "0" {
		owner, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &master{t: t, owner: owner.Username, dir: directory(t), last: map[api.ID]api.Job{}}
	if err := os.Chmod(m.dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	base := directory(t)
	spool, err := jobdir.OpenSpool(filepath.Join(base, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	cluster, err := qconf.Load(fstest.MapFS{"queues/all.q": {Data: []byte(
		"qname all.q\nhostlist n1\nslots 4\nshell /bin/sh\nload_thresholds NONE\ntmpdir " + m.dir + "\n")}}, qconf.Builtin(4))
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Options{
		Host: "n1", Spool: spool, Shepherd: shepherd, Version: "test",
		Configuration: func() (*qconf.Cluster, string, error) { return cluster, "v1", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(base, "agent.sock")
	s, err := New(Options{Socket: socket, Notify: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, s) }()
	m.Client = dial(t, api.Options{Socket: socket, RetryFor: -1})
	m.stop = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the agent does not end")
		}
	}
	return m
}

// until takes reports until one satisfies ok.
func (m *master) until(what string, ok func(r api.Report) bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	err := m.Reports(ctx, m.after, func(r api.Report) error {
		if r.Heartbeat == nil {
			m.after = r.Number
		}
		if r.Job != nil {
			m.last[r.Job.ID] = *r.Job
		}
		if ok(r) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		m.t.Fatalf("waiting until %s: %v; known is %+v", what, err, m.last)
	}
}

func (m *master) untilState(number int, s api.State) {
	m.t.Helper()
	m.until("the job is "+string(s), func(r api.Report) bool { return r.Job != nil && r.Job.Job == number && r.Job.State == s })
}

// TestRealAgent runs jobs as a master sees them, from start to acknowledgement.
func TestRealAgent(t *testing.T) {
	m := realAgent(t)
	defer m.stop()
	ctx := t.Context()
	start := api.Start{
		Job: 7, Owner: m.owner, Command: []string{"-cwd", "-o", "out", "-j", "y", "-v", "WORD", "-l", "h_rt=60", "job.sh", "an argument"},
		Script: "#!/bin/sh\necho \"$WORD $1 $JOB_NAME $NSLOTS\"\nexit 3\n", Environment: map[string]string{"WORD": "hello \xff"}, Directory: m.dir,
		Grants: []api.Grant{{Queue: "all.q", Host: "n1", Slots: 1}},
	}
	j, err := m.Start(ctx, start)
	if err != nil || j.State.Over() || j.Owner != m.owner || j.Name != "job.sh" {
		t.Fatalf("%+v, %v", j, err)
	}
	m.until("the job has ended", func(r api.Report) bool { return r.Job != nil && r.Job.Job == 7 && r.Job.State.Over() })
	if o := m.last[api.ID{Job: 7}].Outcome; o == nil || !o.Ran || o.ExitStatus != 3 || o.Failed != 0 {
		t.Errorf("the outcome is %+v", o)
	}
	if out, err := os.ReadFile(filepath.Join(m.dir, "out")); err != nil || string(out) != "hello \xff an argument job.sh 1\n" {
		t.Errorf("the output is %q, %v", out, err)
	}
	if again, err := m.Start(ctx, start); err != nil || !again.State.Over() {
		t.Errorf("started again: %+v, %v", again, err)
	}
	if err := m.Acknowledge(ctx, m.after); err != nil {
		t.Error(err)
	}
	if !soon(func() bool {
		_, err := m.Job(ctx, api.ID{Job: 7})
		e, ok := errors.AsType[*api.Error](err)
		return ok && e.Code == api.NotFound
	}) {
		t.Error("the job is still there")
	}
	if again, err := m.Start(ctx, start); err != nil || again.State != api.Acknowledged {
		t.Errorf("started again after its end was acknowledged: %+v, %v", again, err)
	}

	// One that is suspended, and ended.
	start.Job, start.Command, start.Script = 8, []string{"-b", "y", "-o", "/dev/null", "-j", "y", "-wd", m.dir, "/bin/sleep", "1000"}, ""
	if _, err := m.Start(ctx, start); err != nil {
		t.Fatal(err)
	}
	m.untilState(8, api.Running)
	for range 2 {
		if err := m.Signal(ctx, api.ID{Job: 8}, api.Suspend); err != nil {
			t.Error(err)
		}
	}
	m.untilState(8, api.Suspended)
	if by := m.last[api.ID{Job: 8}].SuspendedBy; !slices.Equal(by, []api.Order{api.Suspend}) {
		t.Errorf("suspended by %v", by)
	}
	if err := m.Signal(ctx, api.ID{Job: 8, Task: -1}, api.Resume); err != nil {
		t.Error(err)
	}
	m.untilState(8, api.Running)
	if err := m.Signal(ctx, api.ID{Job: 8}, api.Kill); err != nil {
		t.Error(err)
	}
	m.until("the job was killed", func(r api.Report) bool { return r.Job != nil && r.Job.Job == 8 && r.Job.State.Over() })
	if err := m.AcknowledgeJob(ctx, api.ID{Job: 8}, m.last[api.ID{Job: 8}].Number); err != nil {
		t.Error(err)
	}

	// What the agent refuses.
	_, err = m.Start(ctx, api.Start{Job: 9, Owner: "no such user", Command: start.Command, Grants: start.Grants})
	if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Message, "no such user") {
		t.Errorf("a job of nobody: %v", err)
	}
	wantCode(t, "an order for no job", m.Signal(ctx, api.ID{Job: 99}, api.Kill), api.NotFound, "99")
	wantCode(t, "an acknowledgement of the future", m.Acknowledge(ctx, m.after+1<<40), api.InvalidArgument, "")
	err = m.Reports(ctx, m.after+1<<40, func(api.Report) error { return nil })
	wantCode(t, "reports of another agent", err, api.InvalidArgument, "another spool directory; begin with 0")
	if err := m.Drain(ctx, "a test"); err != nil {
		t.Error(err)
	}
	start.Job = 10
	_, err = m.Start(ctx, start)
	wantCode(t, "a drained agent", err, api.Unavailable, "a test")
	if h, err := m.Health(ctx); err != nil || !strings.Contains(h.Draining, "a test") || h.Host != "n1" || h.Configuration != "v1" {
		t.Errorf("%+v, %v", h, err)
	}
}
