package scope

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

const testPatience = 3 * time.Minute

// helper is the environment variable that makes the test binary another program, see TestMain.
const helper = "EXECD_TEST_HELPER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(helper) {
	case "service":
		err = beService()
	case "user":
		err = beUser()
	case "hold":
		err = beHolder()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestWithoutSystemdThereIsNoScope(t *testing.T) {
	if Booted() {
		t.Skip("this host has systemd")
	}
	if _, err := Open(); !errors.Is(err, ErrNoManager) {
		t.Errorf("Open: %v", err)
	}
	if err := Move(); !errors.Is(err, ErrNoManager) {
		t.Errorf("Move: %v", err)
	}
}

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(exit, err)
	}
	return strings.TrimSpace(string(out))
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testPatience); !is(); pause(t.Context(), 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", testPatience, what)
		}
	}
}

func ended(t *testing.T) {
	t.Helper()
	until(t, "the end of the scope, which is "+systemctl(t, "is-active", Name), func() bool { return systemctl(t, "is-active", Name) == "inactive" })
	if _, err := os.Stat(Mount + "/system.slice/" + Name); err == nil {
		t.Error("its group is left over")
	}
}

func sleep(t *testing.T, s *Scope) *os.Process {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(path, []string{"sleep", "1000"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
	})
	return p
}

func groupOfProcess(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(text)), "0::")
}

func TestScopeExistsAsLongAsThereAreJobs(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd)
	first, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if first.Group != "/system.slice/"+Name || second.Group != first.Group {
		t.Errorf("the groups are %q and %q", first.Group, second.Group)
	}
	p := sleep(t, second)
	if got := groupOfProcess(t, p.Pid); got != first.Group+"/"+supervisors {
		t.Errorf("the supervisor is in %q", got)
	}
	if got := systemctl(t, "show", "-P", "Delegate", Name) + systemctl(t, "show", "-P", "TasksMax", Name); got != "yesinfinity" {
		t.Errorf("Delegate and TasksMax are %q", got)
	}
	first.Close()
	second.Close()
	if got := systemctl(t, "is-active", Name); got != "active" {
		t.Errorf("with a supervisor in it the scope is %s", got)
	}
	third, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
	_ = p.Kill()
	_, _ = p.Wait()
	ended(t)
}

// TestScopeHolderEndsWithKilledProcess checks that the process that holds the scope ends with a
// process that was killed and could not close it.
func TestScopeHolderEndsWithKilledProcess(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helper+"=hold")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "open\n" || systemctl(t, "is-active", Name) != "active" {
		t.Errorf("it says %q", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ended(t)
}

func beHolder() error {
	if _, err := Open(); err != nil {
		return err
	}
	fmt.Println("open")
	return forEver()
}

// forEver waits for a day, or until a signal ends the process.
func forEver() error {
	pause(context.Background(), 24*time.Hour)
	return nil
}

// TestProcessesUseScopeConcurrently opens and closes the scope from several goroutines at the same time.
// The scope ends and is created again repeatedly, and every caller gets a scope.
func TestProcessesUseScopeConcurrently(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd)
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	times := 15
	if testing.Short() {
		times = 4
	}
	for range 4 {
		wg.Go(func() {
			for range times {
				s, err := Open()
				if err != nil {
					errs <- err
					return
				}
				p, err := s.Start("/bin/true", []string{"true"}, &os.ProcAttr{})
				if err != nil {
					errs <- err
				} else if _, err := p.Wait(); err != nil {
					errs <- err
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	ended(t)
}

// service is a unit that starts a job in the scope and continues to run.
const service = "execd-test.service"

// TestJobsOutliveTheirService checks that jobs, with their limits, survive the end of their service
// and any command to systemd.
func TestJobsOutliveTheirService(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unit := "[Service]\nType=exec\nExecStart=" + self + "\nEnvironment=" + helper + "=service EXECD_TEST_DIR=" + dir + "\n"
	if err := os.WriteFile("/run/systemd/system/"+service, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove("/run/systemd/system/" + service)
		systemctl(t, "daemon-reload")
	})
	systemctl(t, "daemon-reload")
	systemctl(t, "start", service)
	t.Cleanup(func() { systemctl(t, "stop", service) })
	until(t, "the job of the service", func() bool { _, err := os.Stat(dir + "/job"); return err == nil })
	text, err := os.ReadFile(dir + "/job")
	if err != nil {
		t.Fatal(err)
	}
	var supervisor, job int
	var group string
	if _, err := fmt.Sscan(string(text), &supervisor, &job, &group); err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{}
	for _, pid := range []int{supervisor, job} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		defer func() { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }()
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	check := func(after string) {
		t.Helper()
		if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
			t.Fatalf("after %s: %d of supervisor and job have ended (%v)", after, n, err)
		}
		if got := groupOfProcess(t, job); Mount+got != group {
			t.Errorf("after %s: the job is in %q instead of %q", after, got, group)
		}
		for name, want := range map[string]string{"memory.max": "67108864", "pids.max": "77", "cpuset.cpus": "0", "cpu.weight": "300"} {
			if b, err := os.ReadFile(group + "/" + name); strings.TrimSpace(string(b)) != want || err != nil {
				t.Errorf("after %s: %s is %q (%v)", after, name, b, err)
			}
		}
	}
	check("its start")
	mains := map[string]bool{}
	for _, command := range [][]string{
		{"daemon-reload"},
		{"daemon-reexec"},
		{"restart", service},
		{"daemon-reload"},
		{"kill", "-s", "KILL", service},
		{"reset-failed"},
		{"start", service},
		{"set-property", "--runtime", service, "CPUWeight=50"},
		{"stop", service},
	} {
		mains[systemctl(t, "show", "-P", "MainPID", service)] = true
		out := systemctl(t, command...)
		if command[0] == "kill" {
			until(t, "the end of the service", func() bool { return systemctl(t, "is-active", service) != "active" })
		}
		check(strings.Join(command, " ") + ": " + out)
	}
	// The first process, that after restart, none (0) after kill, and that after start.
	if len(mains) != 4 {
		t.Errorf("the service had the main processes %v", mains)
	}
}

// beService starts two sleeps, a "supervisor" in the scope and a "job" in a group with limits, and waits.
// If an earlier call has started them, it only waits.
func beService() error {
	dir := os.Getenv("EXECD_TEST_DIR")
	if _, err := os.Stat(dir + "/job"); err == nil {
		return forEver()
	}
	s, err := Open()
	if err != nil {
		return err
	}
	m, err := cgroup.Open(cgroup.Config{Within: s.Group})
	if err != nil {
		return err
	}
	g, err := m.Create("1.1", cgroup.Limits{Vmem: 64 << 20, Pids: 77, CPUs: "0", Mems: "0", CPUWeight: 300})
	if err != nil || len(g.Unmet()) > 0 {
		return fmt.Errorf("cannot make the group: %w, %v", err, g.Unmet())
	}
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}}
	supervisor, err := s.Start("/bin/sleep", []string{"sleep", "1000"}, attr)
	if err != nil {
		return err
	}
	group, err := os.Open(g.Paths().Unified)
	if err != nil {
		return err
	}
	job, err := startIn(group, "/bin/sleep", []string{"sleep", "1000"}, attr)
	if err != nil {
		return err
	}
	text := fmt.Sprintln(supervisor.Pid, job.Pid, g.Paths().Unified)
	if err := errors.Join(os.WriteFile(dir+"/job.new", []byte(text), 0o644), os.Rename(dir+"/job.new", dir+"/job")); err != nil {
		return err
	}
	return forEver()
}

// alice is an ordinary user of the guest.
const alice = 2001

// TestScopeOfAUser checks that the user's manager has controllers to delegate, and moves a process to
// the scope that the process itself could not enter.
func TestScopeOfAUser(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd)
	unit := fmt.Sprintf("user@%d.service", alice)
	drop := "/run/systemd/system/" + unit + ".d"
	runtime := fmt.Sprintf("/run/user/%d", alice)
	// A login does this with PAM, which the guest does not have.
	err := errors.Join(os.MkdirAll(drop, 0o755),
		os.WriteFile(drop+"/test.conf", []byte("[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR="+runtime+"\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		systemctl(t, "stop", unit)
		_ = os.RemoveAll(drop)
		systemctl(t, "daemon-reload")
	})
	systemctl(t, "daemon-reload")
	if out := systemctl(t, "start", unit); systemctl(t, "is-active", unit) != "active" {
		t.Fatalf("no manager of the user: %s\n%s", out, systemctl(t, "status", unit))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(runtime, "test")
	binary, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(copied, binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied)
	if mounts, err := os.ReadFile("/proc/mounts"); err == nil && strings.Contains(string(mounts), runtime) && strings.Contains(string(mounts), "noexec") {
		cmd = exec.Command(self)
	}
	cmd.Env = append(os.Environ(), helper+"=user", "XDG_RUNTIME_DIR="+runtime)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func beUser() error {
	start := time.Now()
	if err := Move(); err != nil {
		return err
	}
	took := time.Since(start)
	m, err := cgroup.Open(cgroup.Config{MoveSelf: true})
	if err != nil {
		return err
	}
	defer m.Close()
	g, err := m.Create("1.1", cgroup.Limits{Vmem: 64 << 20, Pids: 77})
	if err != nil || len(g.Unmet()) > 0 {
		return fmt.Errorf("cannot make the group: %w, %v", err, g.Unmet())
	}
	defer g.Remove(testPatience) //nolint:errcheck // the scope ends with this process
	out, err := exec.CommandContext(context.Background(), "/bin/sh", "-c",
		"echo 0 > "+g.Paths().Unified+"/cgroup.procs && cat /proc/self/cgroup "+g.Paths().Unified+"/memory.max").CombinedOutput()
	want := fmt.Sprintf("/user.slice/user-%d.slice/user@%d.service/", alice, alice)
	if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "\n67108864\n") {
		return fmt.Errorf("a process in the group says %q: %w", out, err)
	}
	fmt.Println("moved within", took, "to", string(out))
	return nil
}
