// Package drmaa tests the DRMAA library (clients/drmaa) with programs in C and in Python, and with
// execd standalone.
package drmaa

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// patience is the timeout for a program.
const patience = 5 * time.Minute

// python is Debian's Python, for which python3-drmaa is installed.
const python = "/usr/bin/python3"

var programs struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(status)
}

// built returns a directory with execd, sge_shepherd-go, libdrmaa.so.1.0 and conformance.
func built(t *testing.T) string {
	t.Helper()
	programs.Do(func() { programs.dir, programs.err = build() })
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "execd-test-drmaa-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users run what is in it
		return dir, err
	}
	if there := os.Getenv(testenv.ProgramsEnv); there != "" {
		for _, name := range []string{"execd", "execd-launcher", "sge_shepherd-go"} {
			if err := os.Symlink(filepath.Join(there, name), filepath.Join(dir, name)); err != nil {
				return dir, err
			}
		}
	} else if err := testenv.Build(dir, ""); err != nil {
		return dir, err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return dir, err
	}
	for _, args := range [][]string{
		{"make", "-s", "-C", root, "drmaa", "DRMAA=" + dir, "DRMAA_CFLAGS=-O1 -g -Wall -Wextra -Werror"},
		{
			"cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I", filepath.Join(root, "clients/drmaa"), "testdata/conformance.c",
			"-o", filepath.Join(dir, "conformance"), "-L", dir, "-ldrmaa", "-pthread",
		},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec,noctx // a build
			return dir, fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return dir, nil
}

// machine is a host with execd standalone, and a user on it.
type machine struct {
	*testing.T
	bin, dir string
	user     *user.User
	daemon   testenv.Daemon
}

// newMachine starts a daemon of the user who runs the test. Root's jobs are not run: if root runs
// the test, the programs run as another user.
func newMachine(t *testing.T) *machine {
	t.Helper()
	testenv.Require(t, testenv.DRMAA)
	m := &machine{T: t, bin: built(t), dir: t.TempDir()}
	testenv.LetIn(t, m.dir)
	var err error
	if m.user, err = user.Current(); err == nil && m.user.Uid == "0" {
		m.user, err = user.Lookup("man")
	}
	if err != nil {
		t.Fatal(err)
	}
	tmp := testenv.Open(t, filepath.Join(m.dir, "tmp"))
	for name, text := range map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 8\nshell /bin/sh\nload_thresholds NONE\npe_list smp\ntmpdir " + tmp + "\n",
		"hosts/node1":  "hostname node1\n",
		"conf/global":  "gid_range " + testenv.GroupIDs(52100, 54000) + "\nmin_uid 1\nmin_gid 1\n",
	} {
		testenv.WriteFile(t, filepath.Join(m.dir, "conf", name), text)
	}
	testenv.Open(t, filepath.Join(m.dir, "home"))
	for _, name := range []string{"wd1", "wd2"} {
		testenv.Open(t, filepath.Join(m.dir, "home", name))
	}
	testenv.WriteFile(t, filepath.Join(m.dir, "home/input"), "the input\n")
	t.Cleanup(m.end)
	m.start()
	_, gone := m.daemon.Process()
	ended := false
	until(m, "the daemon listens", func() bool {
		select {
		case <-gone:
			ended = true
		default:
		}
		_, err := os.Stat(m.socket())
		return ended || err == nil
	})
	if ended || t.Failed() {
		t.Fatal("the daemon does not start")
	}
	return m
}

func (m *machine) start() {
	m.Helper()
	cmd := exec.Command(filepath.Join(m.bin, "execd"), "standalone", "--one-process", "--host", "node1", "--spool", filepath.Join(m.dir, "spool"), //nolint:gosec,noctx // it is ended by the test
		"--socket", m.socket(), "--conf", filepath.Join(m.dir, "conf"))
	m.daemon.Start(m, cmd, filepath.Join(m.dir, "log"))
}

func (m *machine) socket() string { return filepath.Join(m.dir, "run", "agent.sock") }

// end deletes all jobs and stops the daemon.
func (m *machine) end() {
	if p, _ := m.daemon.Process(); p == nil {
		return
	}
	defer m.daemon.Kill()
	if m.Failed() {
		out, _ := m.command(context.Background(), "execd", "qstat", "-u", "*").CombinedOutput()
		ended, _ := m.command(context.Background(), "execd", "qacct", "-j").CombinedOutput()
		log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		m.Logf("the jobs:\n%s\nthose that ended:\n%s\nthe log of the daemon:\n%s", out, ended[max(0, len(ended)-8000):], log[max(0, len(log)-4000):])
	}
	cmd := m.command(context.Background(), "execd", "qdel", "-u", m.user.Username)
	_ = cmd.Run() // there may be no jobs
	until(m, "all jobs have left", func() bool {
		out, err := m.command(context.Background(), "execd", "qstat", "-u", "*").Output()
		return err == nil && len(out) == 0
	})
}

// until waits until a condition holds.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	over := time.After(patience)
	for !done() {
		select {
		case <-again.C:
		case <-over:
			t.Errorf("in vain: %s", what)
			return
		}
	}
}

// command returns a command for a built program, or for a path, as the user.
func (m *machine) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if !strings.Contains(name, "/") {
		name = filepath.Join(m.bin, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(m.dir, "home")
	cmd.Env = []string{
		"EXECD_SOCKET=" + m.socket(), "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "USER=" + m.user.Username, "LOGNAME=" + m.user.Username,
		"LD_LIBRARY_PATH=" + m.bin, "DRMAA_LIBRARY_PATH=" + filepath.Join(m.bin, "libdrmaa.so.1.0"), "LANG=C.UTF-8",
	}
	if uid, _ := strconv.Atoi(m.user.Uid); uid != os.Getuid() {
		gid, _ := strconv.Atoi(m.user.Gid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}} //nolint:gosec // they are ids
	}
	return cmd
}

// run runs a program, which prints its errors. The program's helper must exit together with it.
func (m *machine) run(name string, args ...string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	cmd := m.command(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		m.Errorf("%s %q: %v\n%s", name, args, err, out.String())
	}
	if cmd.Process != nil {
		m.noHelper(cmd.Process.Pid)
	}
}

// noHelper waits until the helper of an exited process has also exited.
func (m *machine) noHelper(pid int) {
	m.Helper()
	until(m, fmt.Sprintf("the helper of process %d has exited", pid), func() bool { return len(helpers(pid)) == 0 })
}

// helpers returns the helpers of a process.
func helpers(pid int) (list []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if string(text) == "execd\x00drmaa-helper\x00"+strconv.Itoa(pid)+"\x00" {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			list = append(list, n)
		}
	}
	return list
}

// TestConformance runs a C program that checks the rules of DRMAA 1.0.
func TestConformance(t *testing.T) {
	m := newMachine(t)
	for _, group := range []string{
		"without session", "sessions", "attributes", "empty session", "wait", "bulk jobs", "control", "failing jobs",
		"surroundings", "signals", "threads", "killed helper",
	} {
		t.Run(group, func(t *testing.T) {
			outer := m.T
			defer func() { m.T = outer }()
			m.T = t
			m.run("conformance", group)
		})
	}
}

// TestPython uses the library with python3-drmaa from threads and from forked children.
func TestPython(t *testing.T) {
	m := newMachine(t)
	text, err := os.ReadFile("testdata/threads.py")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(m.dir, "threads.py") // the user may not be able to read the source tree
	testenv.WriteFile(t, script, string(text))
	m.run(python, script)
}

// TestCellDirectory makes python3-drmaa load the library from the daemon's cell directory.
func TestCellDirectory(t *testing.T) {
	m := newMachine(t)
	if os.Getenv(testenv.ProgramsEnv) != "" {
		return // these programs are built without the library
	}
	paths, err := filepath.Glob(filepath.Join(m.dir, "spool", "sge", "lib", "*", "libdrmaa.so"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("the cell directory has the libraries %q (%v)", paths, err)
	}
	cmd := m.command(t.Context(), python, "-c", "import drmaa; drmaa.Session().initialize(); print(drmaa.Session.drmsInfo)")
	cmd.Env = append(cmd.Env, "DRMAA_LIBRARY_PATH="+paths[0])
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "execd") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestKilledProgram kills programs during a call and expects their helpers to exit.
func TestKilledProgram(t *testing.T) {
	m := newMachine(t)
	cmd := m.command(t.Context(), python, "-c", `
import drmaa, os, time
s = drmaa.Session()
s.initialize()
jt = s.createJobTemplate()
jt.remoteCommand = "/bin/sleep"
jt.args = ["100"]
jt.joinFiles = True
jt.outputPath = ":/dev/null"
job = s.runJob(jt)
parent = os.getpid()
if os.fork() == 0:  # it inherits everything of its parent, and outlives it
    os.closerange(0, 3)
    while os.getppid() == parent:
        time.sleep(0.1)
    time.sleep(5)
    os._exit(0)
print("runs", flush=True)
s.wait(job)
`)
	cmd.WaitDelay = time.Second
	ready, end := testenv.Begin(t, cmd)
	if strings.TrimSpace(ready) != "runs" {
		t.Errorf("the program prints %q", ready)
	}
	pid := cmd.Process.Pid
	if len(helpers(pid)) != 1 {
		t.Errorf("the program has %d helpers", len(helpers(pid)))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if _, ok := errors.AsType[*exec.ExitError](end()); !ok {
		t.Error("the program was not killed")
	}
	m.noHelper(pid)
}

// TestKilledInEachCall kills a program in each call of the library.
func TestKilledInEachCall(t *testing.T) { killedInEachCall(t, 1, 20) }

// TestSoakKilledInEachCall does the same many times.
func TestSoakKilledInEachCall(t *testing.T) {
	testenv.Soak(t)
	killedInEachCall(t, 40, 500)
}

// killedInEachCall kills programs at any point of a call, while another program submits jobs and waits
// for them, which it must not notice. Nothing may be left of a killed program except its jobs, and
// these must be complete.
func killedInEachCall(t *testing.T, times, jobs int) {
	m := newMachine(t)
	sockets := m.sockets()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	other := m.command(ctx, "conformance", "many", strconv.Itoa(jobs))
	var out bytes.Buffer
	other.Stdout, other.Stderr = &out, &out
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range times {
		for k, call := range []string{"init", "template", "run_job", "run_bulk_jobs", "control", "job_ps", "synchronize", "wait"} {
			cmd := m.command(ctx, "conformance", "again", call)
			ready, end := testenv.Begin(t, cmd)
			if ready != "begins\n" {
				t.Errorf("%s: it prints %q", call, ready)
			}
			// So long it makes calls.
			time.AfterFunc(time.Duration(i+5*k)%40*time.Millisecond, func() { _ = cmd.Process.Kill() })
			if status, ok := errors.AsType[*exec.ExitError](end()); !ok || !status.Sys().(syscall.WaitStatus).Signaled() {
				t.Errorf("%s: the program was not killed", call)
			}
			m.noHelper(cmd.Process.Pid)
		}
	}
	if err := other.Wait(); err != nil {
		t.Errorf("the other program: %v\n%s", err, out.String())
	}
	m.noHelper(other.Process.Pid)
	list, err := m.command(ctx, "execd", "qstat", "-u", m.user.Username).Output()
	if err != nil {
		t.Error(err)
	}
	arrays := 0
	for i, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		words := strings.Fields(line)
		if i < 2 {
			continue
		}
		if len(words) < 8 || words[2] != "dies" || words[4] != "hqw" && words[4] != "qw" || len(words) > 8 && words[8] != "1-3:1" {
			t.Errorf("a job of a killed program: %q", line)
		}
		if len(words) > 8 {
			arrays++
		}
	}
	t.Attr("array-jobs", strconv.Itoa(arrays))
	until(m, "the daemon has closed the connections", func() bool { return m.sockets() <= sockets })
}

// TestStoppedProgram stops a program that waits for its jobs, and its helper, which then read no answers.
// Another program does not notice, and the first one gets all results when it goes on.
func TestStoppedProgram(t *testing.T) { stoppedProgram(t, 20) }

// TestSoakStoppedProgram does the same with more jobs than one answer of the daemon holds the ends of.
func TestSoakStoppedProgram(t *testing.T) {
	testenv.Soak(t)
	stoppedProgram(t, 1500)
}

func stoppedProgram(t *testing.T, jobs int) {
	m := newMachine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	queue := func(option string) {
		t.Helper()
		cmd := m.command(ctx, "execd", "qmod", option, "all.q")
		cmd.SysProcAttr = nil // the user of the daemon is a manager
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("qmod %s: %v: %s", option, err, out)
		}
	}
	queue("-d") // until the program is stopped
	cmd := m.command(ctx, "conformance", "many", "20")
	ready, end := testenv.Begin(t, cmd)
	if ready != "submitted\n" {
		t.Fatalf("it prints %q", ready)
	}
	stopped := append(helpers(cmd.Process.Pid), cmd.Process.Pid)
	if len(stopped) != 2 {
		t.Fatalf("the program and its helper: %v", stopped)
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		for _, pid := range stopped {
			if err := syscall.Kill(pid, s); err != nil {
				t.Error(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	queue("-e")
	m.run("conformance", "many", strconv.Itoa(jobs))
	signal(syscall.SIGCONT)
	if err := end(); err != nil {
		t.Errorf("the program that was stopped: %v", err)
	}
	m.noHelper(cmd.Process.Pid)
}

// sockets returns how many sockets the daemon has open.
func (m *machine) sockets() (n int) {
	m.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.daemon.Pid()))
	if err != nil || len(links) == 0 {
		m.Fatalf("the daemon has no files: %v", err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestRestart stops the daemon, by SIGTERM and by SIGKILL, while a program submits jobs and waits.
func TestRestart(t *testing.T) {
	m := newMachine(t)
	const jobs = 120
	const most = 12 // restarts: on a busy machine the program would make no progress between more of them
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := m.command(ctx, "conformance", "many", strconv.Itoa(jobs))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for i := 0; ; i++ {
		next := time.After(500 * time.Millisecond)
		if i == most {
			next = nil
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			if i < 2 {
				t.Errorf("the program ended after %d restarts", i)
			}
			return
		case <-next:
		}
		p, gone := m.daemon.Process()
		signal := syscall.SIGTERM
		if i%2 == 1 {
			signal = syscall.SIGKILL
		}
		if err := p.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-gone
		m.start()
	}
}

// TestManyJobs runs a program that submits hundreds of jobs and waits for any of them.
func TestManyJobs(t *testing.T) { newMachine(t).run("conformance", "many", "300") }

// TestSoakManyJobs does the same with ten thousand jobs.
func TestSoakManyJobs(t *testing.T) {
	testenv.Soak(t)
	m := newMachine(t)
	cmd := m.command(t.Context(), "conformance", "many", "10000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
