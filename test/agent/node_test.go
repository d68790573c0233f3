package agent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// patience is the timeout of a test, on a busy machine.
const patience = 5 * time.Minute

const host = "node1"

// programs builds the executables, once for each list of build tags.
var programs = struct {
	sync.Mutex
	dirs map[string]string
}{dirs: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range programs.dirs {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// built returns a directory with execd and the supervisor.
func built(t testing.TB, tags string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if dir, ok := programs.dirs[tags]; ok {
		return dir
	}
	if dir := os.Getenv(testenv.ProgramsEnv); dir != "" && tags == "" {
		return dir
	}
	dir, err := os.MkdirTemp("", "execd-test-agent-") //nolint:usetesting // for all tests
	if err != nil {
		t.Fatal(err)
	}
	programs.dirs[tags] = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Build(dir, tags); err != nil {
		t.Fatal(err)
	}
	return dir
}

// node is a host with an agent that can be killed and restarted.
type node struct {
	testing.TB
	bin, dir, socket string
	owner            *user.User
	args             []string // further options of the agent
	client           *api.Client

	agent testenv.Daemon
}

// groupIDs returns a gid_range for one agent of these tests.
func groupIDs() string { return testenv.GroupIDs(46000, 48000) }

// newNode creates a host without a running agent.
func newNode(t testing.TB, tags string) *node {
	t.Helper()
	n := &node{TB: t, bin: built(t, tags), dir: t.TempDir()}
	testenv.LetIn(t, n.dir)
	var err error
	if n.owner, err = user.Current(); err != nil {
		t.Fatal(err)
	}
	if n.owner.Uid == "0" {
		if n.owner, err = user.Lookup("nobody"); err != nil {
			t.Fatal(err)
		}
	}
	n.write("conf/queues/all.q", "qname all.q\nhostlist node1\nslots 2000\nshell /bin/sh\nload_thresholds NONE\ntmpdir "+n.open("tmp")+"\n")
	n.write("conf/conf/global", "gid_range "+groupIDs()+"\n")
	n.socket = filepath.Join(n.dir, "run", "agent.sock")
	if n.client, err = api.Dial(api.Options{Socket: n.socket, RetryFor: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.end)
	return n
}

func (n *node) write(name, text string) {
	n.Helper()
	testenv.WriteFile(n, filepath.Join(n.dir, name), text)
}

// open creates a directory to which the owner of jobs may write.
func (n *node) open(name string) string {
	n.Helper()
	return testenv.Open(n, filepath.Join(n.dir, name))
}

func (n *node) spool() string { return filepath.Join(n.dir, "spool") }

// start starts an agent, with additional environment variables.
func (n *node) start(env ...string) {
	n.Helper()
	cmd := exec.Command(filepath.Join(n.bin, "execd"), "agent", "--host", host, "--spool", n.spool(), //nolint:noctx // it is killed by the test
		"--socket", n.socket, "--conf", filepath.Join(n.dir, "conf"), "--log-level", "debug")
	cmd.Args = append(cmd.Args, n.args...)
	cmd.Env = append(os.Environ(), env...)
	n.agent.Start(n, cmd, filepath.Join(n.dir, "log"))
}

// end stops the agent and the remaining jobs.
func (n *node) end() {
	agent, gone := n.agent.Process()
	if agent == nil {
		return
	}
	select {
	case <-gone:
		n.start()
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	jobs, err := n.client.Jobs(ctx)
	if err != nil {
		n.Errorf("%v\n%s", err, n.log())
	}
	for _, j := range jobs {
		_ = n.client.Signal(ctx, j.ID, api.Kill)
	}
	if err := n.forgotten(ctx); err != nil {
		n.Errorf("jobs do not end: %v\n%s", err, n.log())
	}
	n.agent.Kill()
}

func (n *node) log() string {
	b, err := os.ReadFile(filepath.Join(n.dir, "log"))
	if err != nil {
		return err.Error()
	}
	const most = 6000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}

// mustStart starts a job as soon as the agent accepts jobs.
func (n *node) mustStart(ctx context.Context, s api.Start) {
	n.Helper()
	for {
		_, err := n.client.Start(ctx, s)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.Unavailable && ctx.Err() == nil {
			continue
		}
		if err != nil {
			n.Fatalf("%v\n%s", err, n.log())
		}
		return
	}
}

// job returns the start request for a shell script.
func (n *node) job(id int, script string) api.Start {
	return api.Start{
		Job: id, Owner: n.owner.Username, Script: "#!/bin/sh\n" + script,
		Command: []string{"-S", "/bin/sh", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh"},
		Grants:  []api.Grant{{Queue: "all.q", Host: host, Slots: 1}},
	}
}

// lines returns the lines of a file; none if the file is missing or empty.
func lines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
