package cluster

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// patience is the timeout of a test, on a busy machine. sge_qmaster repeats an unconfirmed message
// after five minutes.
const patience = 6 * time.Minute

// originalEnv runs the original sge_execd in place of the agent, to verify a check with the
// original.
const originalEnv = "EXECD_CLUSTER_ORIGINAL"

// programs builds the executables, once.
var programs = struct {
	sync.Mutex
	dir string
}{}

func TestMain(m *testing.M) {
	flag.Parse()
	// The subtests wait most of the time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// built returns a directory with execd and the supervisor.
func built(t testing.TB) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.dir != "" {
		return programs.dir
	}
	dir, err := os.MkdirTemp("", "execd-test-cluster-") //nolint:usetesting // for all tests
	if err != nil {
		t.Fatal(err)
	}
	programs.dir = dir
	if err := testenv.Build(dir, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cell is a cell with the agent as its execution daemon.
type cell struct {
	*gridengine.Cell
	*testing.T
}

func start(t *testing.T, cfg gridengine.Config) *cell {
	t.Helper()
	need := testenv.GridEngine
	if cfg.Installation = os.Getenv(testenv.OCSEnv); cfg.Installation != "" {
		need = testenv.OCS
		cfg.SecurityMode = os.Getenv(testenv.OCSSecurityEnv)
	}
	testenv.Require(t, testenv.Root, need)
	if os.Getenv(originalEnv) == "" {
		cfg.Agent = built(t)
	}
	c := &cell{gridengine.Start(t, cfg), t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", c.Messages())
		}
	})
	return c
}

// series returns the series of releases of sge_qmaster: "8.1", "9.0" or "9.1".
func (c *cell) series() string {
	c.Helper()
	first, _, _ := strings.Cut(c.root("qstat", "-help"), "\n")
	version := regexp.MustCompile(`[0-9]+\.[0-9]+`).FindString(first)
	if version == "" {
		c.Fatalf("qstat -help begins with %q", first)
	}
	return version
}

// queue creates a queue on all hosts of the cell.
func (c *cell) queue(name string, attributes map[string]string) {
	c.Helper()
	all := map[string]string{"slots": "4", "load_thresholds": "NONE", "shell": "/bin/sh", "shell_start_mode": "unix_behavior"}
	maps.Copy(all, attributes)
	if err := c.AddQueues(gridengine.Queue{Name: name, Attributes: all}); err != nil {
		c.Fatal(err)
	}
}

// root and alice run commands that must succeed.
func (c *cell) root(args ...string) string {
	c.Helper()
	out, err := c.Root(args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

func (c *cell) alice(args ...string) string {
	c.Helper()
	out, err := c.User("alice", args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)

// qsub submits a job of alice and returns its number.
func (c *cell) qsub(args ...string) int {
	c.Helper()
	out := c.alice(append([]string{"qsub", "-terse"}, args...)...)
	n, err := strconv.Atoi(digits.FindString(out))
	if err != nil {
		c.Fatalf("qsub says %q", out)
	}
	return n
}

// anotherAgent kills the agent, starts another one, and waits until it is known to sge_qmaster:
// messages sent to the killed agent in between are repeated only after minutes.
func (c *cell) anotherAgent(options ...string) {
	c.Helper()
	registered := func() int { return strings.Count(c.AgentLog(), "registered with sge_qmaster") }
	before := registered()
	if err := c.KillAgent(syscall.SIGKILL); err != nil {
		c.Fatal(err)
	}
	// With two processes, the front would wait for the next launcher.
	_, _ = c.Root("pkill", "-KILL", "-u", frontUser, "-x", "execd")
	if err := c.LaunchAgentWith(options); err != nil {
		c.Fatal(err)
	}
	c.until("the other agent is registered", func() bool { return registered() > before })
}

// script writes a script of alice.
func (c *cell) script(name, text string) string {
	c.Helper()
	path := "/home/alice/" + name
	if root := os.Getenv(testenv.OCSEnv); root != "" { // PATH of jobs contains Debian's commands
		text = "PATH=" + root + "/bin/lx-amd64:$PATH\n" + text
	}
	if err := c.AddFile(path, "#!/bin/sh\n"+text, 0o755); err != nil {
		c.Fatal(err)
	}
	return path
}

// file reads a file of the cell.
func (c *cell) file(path string) string {
	c.Helper()
	text, err := os.ReadFile(c.Path(path))
	if err != nil {
		c.Error(err)
	}
	return string(text)
}

// until waits until a condition holds.
func (c *cell) until(what string, ready func() bool) {
	c.Helper()
	if err := c.Poll(patience, what, func() (bool, error) { return ready(), nil }); err != nil {
		c.Fatalf("%v\nqstat: %s", err, func() string { out, _ := c.Root("qstat", "-f", "-u", "*"); return out }())
	}
}

// states returns the states of a job's tasks in qstat.
func (c *cell) states(job int) []string {
	out, err := c.Root("qstat", "-u", "*")
	if err != nil { // sge_qmaster is temporarily unavailable
		return []string{"?"}
	}
	var all []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 4 && f[0] == strconv.Itoa(job) {
			all = append(all, f[4])
		}
	}
	return all
}

// state returns the state of a job's first task; empty if the task has left.
func (c *cell) state(job int) string {
	if all := c.states(job); len(all) > 0 {
		return all[0]
	}
	return ""
}

// awaitState waits for a job to be in a state.
func (c *cell) awaitState(job int, state string) {
	c.Helper()
	c.until("job "+strconv.Itoa(job)+" is in state "+strconv.Quote(state), func() bool { return c.state(job) == state })
}

// ended waits for the end of a task, and returns its records.
func (c *cell) ended(job, task, records int) []gridengine.Record {
	c.Helper()
	var found []gridengine.Record
	c.until("job "+strconv.Itoa(job)+" has its records", func() bool {
		var err error
		found, err = c.Accounting(job, task)
		return err == nil && len(found) >= records
	})
	if len(found) != records {
		c.Errorf("job %d has %d records, want %d: %v", job, len(found), records, found)
	}
	return found
}

// want compares fields of a record.
func (c *cell) want(r gridengine.Record, fields map[string]string) {
	c.Helper()
	for name, value := range fields {
		if r[name] != value {
			c.Errorf("job %s: %s is %q, want %q", r["jobnumber"], name, r[name], value)
		}
	}
}

// nothingLeft waits until the agent has no data of any job.
func (c *cell) nothingLeft() {
	c.Helper()
	c.until("the agent has no job directory", func() bool {
		names, err := c.AgentJobs()
		return err == nil && len(names) == 0
	})
}

// run runs a subtest in the cell, in parallel with the others.
func (c *cell) run(name string, f func(c *cell)) {
	c.Run(name, func(t *testing.T) {
		t.Parallel()
		f(&cell{c.Cell, t})
	})
}
