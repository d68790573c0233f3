package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// TestMain runs the tests, or one of two other programs: a process of
// TestConcurrentProcessesGetDistinctCores, or an agent that a test kills.
func TestMain(m *testing.M) {
	for name, program := range map[string]func(string) error{"LAUNCH_TEST_SPOOL": prepareOnRequest, agentEnv: agent} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		if err := program(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := m.Run()
	if programsDir != "" {
		_ = os.RemoveAll(programsDir)
	}
	os.Exit(status)
}

var programsDir string

// supervisorProgram is the real supervisor, built once unless it was built for us.
var supervisorProgram = sync.OnceValues(func() (string, error) {
	parent := ""
	if os.Getuid() == 0 {
		parent = "/tmp" // not what TMPDIR says, which may be closed to others
	}
	var err error
	if programsDir, err = os.MkdirTemp(parent, "execd-launch-"); err != nil {
		return "", err
	}
	if err := os.Chmod(programsDir, 0o755); err != nil {
		return "", err
	}
	path := programsDir + "/" + ShepherdName
	if built := os.Getenv(testenv.ProgramsEnv); built != "" {
		b, err := os.ReadFile(filepath.Join(built, ShepherdName))
		return path, errors.Join(err, os.WriteFile(path, b, 0o755))
	}
	return path, goCommand("build", "-buildvcs=false", "-o", path, "github.com/execd-project/execd/cmd/shepherd")
})

func goCommand(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// mortal are agent and supervisor with failpoints.
var mortal = sync.OnceValues(func() (dir string, err error) {
	if _, err := supervisorProgram(); err != nil {
		return "", err
	}
	dir = programsDir + "/mortal"
	return dir, errors.Join(os.Mkdir(dir, 0o755),
		goCommand("build", "-buildvcs=false", "-tags", "failpoint", "-o", dir+"/"+ShepherdName, "github.com/execd-project/execd/cmd/shepherd"),
		goCommand("test", "-c", "-vet=off", "-tags", "failpoint", "-o", dir+"/agent", "."))
})

func realSupervisor(t testing.TB) string {
	t.Helper()
	path, err := supervisorProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// place is where the jobs of a test are: spool area, tmpdir of the queue and a
// directory in which jobs may write.
type place struct {
	dir   string
	spool *jobdir.Spool
	owner *userdb.User
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{dir: openDir(t)}
	for _, sub := range []string{"/tmp", "/out"} {
		if err := errors.Join(os.Mkdir(p.dir+sub, 0o755), os.Chmod(p.dir+sub, 0o777|os.ModeSticky)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.spool.Close)
	p.sweep()
	return p
}

// sweep removes control groups of an earlier directory with the same inode number, whose test was
// killed. Where there can be no groups there are none to remove.
func (p *place) sweep() {
	o, err := p.order("true")
	if err != nil {
		return
	}
	if g, err := OpenGroupsFor(p.spool, o.Config, false); err == nil && g != nil {
		_, _ = g.manager.Sweep(time.Minute, func(string) bool { return true })
		g.Close()
	}
}

// openDir returns a new directory that all users may enter.
func openDir(t testing.TB) string {
	t.Helper()
	parent := ""
	if os.Getuid() == 0 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "execd-launch-") //nolint:usetesting // that of the test is closed to others
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *place) open() error {
	var err error
	if p.spool, err = jobdir.OpenSpool(p.dir + "/spool"); err != nil {
		return err
	}
	p.owner, err = userdb.System().UserID(uint32(os.Getuid()))
	if err == nil && p.owner.UID == 0 {
		p.owner, err = userdb.System().User("nobody")
	}
	return err
}

// order returns an order for a shell command, with options of qsub.
func (p *place) order(command string, options ...string) (*Assignment, error) {
	args := append([]string{"-wd", "/", "-o", "/dev/null", "-j", "y", "-N", "n"}, options...)
	request, err := submit.Parse(submit.Input{Args: append(args, "-b", "y", "-shell", "n", "/bin/sh", "-c", command), Cwd: "/"})
	if err != nil {
		return nil, err
	}
	o, err := Resolve(qconf.Builtin(max(4, runtime.NumCPU())), request, "all.q", "host")
	if err != nil {
		return nil, err
	}
	o.Owner, o.Lookup, o.Record = p.owner, userdb.System().User, []byte("{}\n")
	o.Queue.Tmpdir = p.dir + "/tmp"
	return o, nil
}

func (p *place) prepare(t testing.TB, id job.ID, command string, options ...string) *Job {
	t.Helper()
	o, err := p.order(command, options...)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Prepare(p.spool, o, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// reopen opens a job as another process would.
func (p *place) reopen(t testing.TB, id job.ID, want Stage) *Job {
	t.Helper()
	j, stage, err := Open(p.spool, nil, userdb.System().User, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if stage != want {
		t.Fatalf("the job is %s, expected %s", stage, want)
	}
	return j
}

func launched(t testing.TB, j *Job) {
	t.Helper()
	if err := j.Launch(realSupervisor(t)); err != nil {
		t.Fatal(err)
	}
}

// patience bounds whatever a test waits for.
const patience = 2 * time.Minute

func waited(t testing.TB, j *Job) syscall.WaitStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := j.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// until waits for something that nothing tells.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 2e6}, nil)
	}
}

// left are the names of all that is in the spool area and in the tmpdir.
func (p *place) left(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"/spool/active_jobs/*", "/spool/job_scripts/*", "/tmp/*"} {
		found, err := filepath.Glob(p.dir + pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

func (p *place) nothingLeft(t testing.TB) {
	t.Helper()
	if names := p.left(t); len(names) > 0 {
		t.Errorf("left over: %q", names)
	}
}

// agentEnv has the test binary be an agent.
const agentEnv = "EXECD_TEST_LAUNCH_AGENT"

// said is the report of an agent about its job.
type said struct {
	Accepted bool         `json:",omitempty"`
	Outcome  *job.Outcome `json:",omitempty"`
	Removed  bool         `json:",omitempty"`
}

// agent runs one job as an agent does. Depending on its options it kills itself after it has
// prepared or launched the job; a test may also kill it at a failpoint. Otherwise it follows the
// job to its end.
func agent(order string) error {
	p := &place{dir: os.Getenv(agentEnv + "_DIR")}
	if err := p.open(); err != nil {
		return err
	}
	o, err := p.order(os.Getenv(agentEnv+"_COMMAND"), "-l", "h_rt=600")
	if err != nil {
		return err
	}
	o.Record = []byte("a record\n")
	if err := p.agentsOrder(o, os.Getenv(agentEnv+"_OPTIONS")); err != nil {
		return err
	}
	tell := func(s said) error { return json.NewEncoder(os.Stdout).Encode(s) }
	if err := StoreScript(p.spool, o, seven.Job); err != nil {
		return err
	}
	j, err := Prepare(p.spool, o, seven)
	if err == nil {
		err = tell(said{Accepted: true})
	}
	if err == nil && order != "prepare" {
		err = j.Launch(os.Getenv(agentEnv + "_SHEPHERD"))
	}
	if err != nil {
		return err
	}
	if order != "whole" {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return p.seeThrough(j, o, tell)
}

// seeThrough does what an agent does after it has launched a job: it waits for the job, collects
// its outcome and removes it.
func (p *place) seeThrough(j *Job, o *Assignment, tell func(said) error) error {
	if ask := map[string]func() error{"asked": j.Terminate, "migrates": j.Migrate}[o.Request.Name]; ask != nil {
		for !j.Running() && j.PID() != 0 {
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		}
		if err := ask(); err != nil {
			return err
		}
	}
	status, err := j.Wait(context.Background())
	if err == nil {
		err = tell(said{Outcome: j.Collect(status)})
	}
	if err == nil {
		err = j.Remove(false)
	}
	if err == nil {
		err = RemoveScript(p.spool, o, seven.Job)
	}
	if err == nil {
		err = tell(said{Removed: true})
	}
	return err
}

// agentsOrder changes the order of an agent: "all" has all that a job can have, in
// "error" the epilog fails, in "asked" the end of the job is asked for, and in
// "migrates" its migration.
func (p *place) agentsOrder(o *Assignment, options string) error {
	if options == "" {
		return nil
	}
	o.Request.Binary, o.Request.Script = false, []byte("#!/bin/sh\n"+os.Getenv(agentEnv+"_COMMAND")+"\n")
	o.Request.Name = options
	o.Queue.Prolog, o.Queue.Epilog = "/bin/true", "/bin/true"
	switch options {
	case "error":
		o.Queue.Epilog = "/bin/false"
	case "tmpfs", "quota":
		o.Privileged, o.Config.MinUID, o.Config.MinGID = true, 1, 1
		o.Config.ExecdParams.ScratchLimit, o.Complexes = qconf.ScratchLimit(options), nil
		o.Request.Resources = append(o.Request.Resources, submit.ResourceRequest{Name: qconf.ScratchName, Value: "8M"})
	case "migrates":
		o.Ckpt = &qconf.Checkpoint{Name: "c", Interface: "userdefined", When: "sx"}
	}
	o.PE = &qconf.ParallelEnvironment{Name: "mpi", Start: "/bin/true", Stop: "/bin/true"}
	var err error
	o.Groups, err = OpenGroupsFor(p.spool, o.Config, false)
	return err
}

// runAgent runs an agent of a program to its end.
func (p *place) runAgent(t testing.TB, program, shepherd, order, command string, env ...string) (says said, killed bool) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), agentEnv+"="+order, agentEnv+"_DIR="+p.dir, agentEnv+"_COMMAND="+command,
		agentEnv+"_SHEPHERD="+shepherd)
	cmd.Env = append(cmd.Env, env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		if e := d.Decode(&says); e != nil {
			break
		}
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed = status.Signaled() && status.Signal() == syscall.SIGKILL; err != nil && !killed {
		t.Fatalf("the agent has failed: %v\n%s", err, errs.String())
	}
	return says, killed
}

// killedAgent runs an agent to its death.
func (p *place) killedAgent(t testing.TB, order, command string, env ...string) {
	t.Helper()
	if _, killed := p.runAgent(t, "/proc/self/exe", realSupervisor(t), order, command, env...); !killed {
		t.Fatal("the agent was not killed")
	}
}
