package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// patience is when a test gives up.
const patience = 3 * time.Minute

const host = "node1"

const groupIDs = "gid_range 56000-56999\n"

var shepherd string // path of the supervisor, built for these tests

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "execd-agent-")
	if err != nil {
		panic(err)
	}
	shepherd = filepath.Join(dir, launch.ShepherdName)
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", shepherd, "../cmd/shepherd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// world is an agent with a spool area, and a master's view of it.
type world struct {
	*testing.T
	agent *Agent
	spool *jobdir.Spool
	owner *user.User
	stop  func()
}

// newWorld starts an agent. change may change its options.
func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{T: t}
	var err error
	if w.owner, err = user.Current(); err != nil {
		t.Fatal(err)
	}
	if w.owner.Uid == "0" {
		if w.owner, err = user.Lookup("nobody"); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	// Jobs run as somebody else, who has to get at their scripts and directories.
	testenv.LetIn(t, dir)
	if w.spool, err = jobdir.OpenSpool(filepath.Join(dir, "spool")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.spool.Close)
	w.start(change...)
	t.Cleanup(func() {
		w.end()
		w.stop()
	})
	return w
}

// start starts an agent on the spool area, as after the death of the previous one.
func (w *world) start(change ...func(*Options)) {
	w.Helper()
	o := Options{
		Host: host, Spool: w.spool, Shepherd: shepherd, Version: "test",
		Configuration: func() (*qconf.Cluster, string, error) { return cluster(w), "test", nil },
		Log:           hclog.New(&hclog.LoggerOptions{Output: testWriter{w.T}, Level: hclog.Debug}),
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if w.agent, err = New(o); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.agent.Run(ctx) }()
	w.stop = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.Error(err)
			}
			done <- nil
		case <-time.After(patience):
			w.Fatal("the agent does not end")
		}
	}
}

// cluster returns a configuration with a queue of 100 slots and without load thresholds.
func cluster(t testing.TB) *qconf.Cluster {
	t.Helper()
	return load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\npe_list smp\n",
	})
}

// load reads a configuration. Its queues have the directories of jobs below one of the
// test's. Its additional group ids are nobody else's: what has that of a job whose supervisor
// was killed ends with it, and tests of other packages have jobs on this host, too.
func load(t testing.TB, files map[string]string) *qconf.Cluster {
	t.Helper()
	tmp := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(tmp), 0o755), os.Chmod(tmp, os.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{"conf/global": &fstest.MapFile{Data: []byte(groupIDs)}}
	for name, text := range files {
		if strings.HasPrefix(name, "queues/") {
			text += "tmpdir " + tmp + "\n"
		}
		if name == "conf/global" {
			text += groupIDs
		}
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(dir, qconf.Builtin(runtime.NumCPU()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// end ends all jobs and waits until they are gone.
func (w *world) end() {
	w.Helper()
	for _, r := range w.agent.Jobs() {
		_ = w.agent.Signal(context.Background(), r.ID, Kill)
	}
	timeout := time.After(patience)
	for {
		w.agent.table.mu.Lock()
		left, changed, last := len(w.agent.table.jobs), w.agent.table.changed, w.agent.table.numbers.limit()
		w.agent.table.mu.Unlock()
		if left == 0 {
			return
		}
		if err := w.agent.Acknowledge(context.Background(), last); err != nil {
			w.Error(err)
		}
		select {
		case <-changed:
		case <-timeout:
			w.Errorf("jobs are left: %+v", w.agent.Jobs())
			return
		}
	}
}

// job returns a start of a command line of qsub.
func (w *world) job(id int, words ...string) *Start {
	w.Helper()
	dir := w.TempDir()
	if err := os.Chmod(dir, 0o1777); err != nil {
		w.Fatal(err)
	}
	args := append([]string{"-wd", dir, "-o", "/dev/null", "-j", "y", "-b", "y", "-shell", "n"}, words...)
	request, err := submit.Parse(submit.Input{Args: args, Cwd: "/"})
	if err != nil {
		w.Fatal(err)
	}
	return &Start{
		ID: job.ID{Job: id}, Owner: w.owner.Username, Request: request, Submitted: time.Now(),
		Grants: []Grant{{Queue: "all.q", Host: host, Slots: 1}},
	}
}

func (w *world) mustStart(s *Start) JobReport {
	w.Helper()
	r, err := w.agent.Start(w.Context(), s)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// await waits until a job is reported in one of some states.
func (w *world) await(id job.ID, states ...State) JobReport {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for after := uint64(0); ; {
		b, err := w.agent.Reports(ctx, after)
		if err != nil {
			r, _ := w.agent.Job(id)
			w.Fatalf("job %s does not come to %v; it is %+v", id, states, r)
		}
		for _, r := range b.Jobs {
			if r.ID == id && slices.Contains(states, r.State) {
				return r
			}
		}
		after = b.Number
	}
}

// until waits until something is so; it is looked at whenever the agent has something
// to report, and from time to time.
func (w *world) until(what string, so func() bool) {
	w.Helper()
	timeout := time.After(patience)
	again := time.NewTicker(10 * time.Millisecond) // some changes close no channel
	defer again.Stop()
	for {
		w.agent.table.mu.Lock()
		changed := w.agent.table.changed
		w.agent.table.mu.Unlock()
		if so() {
			return
		}
		select {
		case <-changed:
		case <-again.C:
		case <-timeout:
			w.Fatalf("it does not come to be that %s", what)
		}
	}
}

// ended waits for the end of a job and acknowledges it.
func (w *world) ended(id job.ID) *job.Outcome {
	w.Helper()
	r := w.await(id, Ended, Reported)
	if err := w.agent.AcknowledgeJob(w.Context(), id, r.Number); err != nil {
		w.Fatal(err)
	}
	return r.Outcome
}
