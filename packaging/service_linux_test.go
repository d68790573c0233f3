package packaging

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// patience is for a machine that is emulated.
const patience = 2 * time.Minute

// override has a watchdog that a test can wait for.
const override = "[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\n"

// host is a machine on which the service is installed.
type host struct {
	t      *testing.T
	client *api.Client
	dir    string // of the job's files; everybody may write there
}

// install does what a package would do.
func install(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	h.check(os.Chmod(filepath.Dir(h.dir), 0o755))
	h.check(os.Chmod(h.dir, 0o777))
	h.check(os.MkdirAll("/usr/lib/execd", 0o755))
	programs := os.Getenv(testenv.ProgramsEnv)
	for _, name := range []string{"execd", "execd-launcher", "sge_shepherd-go"} {
		b, err := os.ReadFile(programs + "/" + name)
		h.check(err)
		h.check(os.WriteFile("/usr/lib/execd/"+name, b, 0o755))
	}
	h.check(os.Symlink("../lib/execd/execd", "/usr/bin/execd"))
	h.check(os.MkdirAll("/etc/default", 0o755))
	h.check(os.WriteFile("/etc/default/execd", []byte("EXECD_OPTS=\"--host node1 --metrics 127.0.0.1:9446\"\n"), 0o644))
	h.check(os.WriteFile("/etc/systemd/system/execd.service", []byte(unit), 0o644))
	h.check(os.MkdirAll("/etc/systemd/system/execd.service.d", 0o755))
	h.check(os.WriteFile("/etc/systemd/system/execd.service.d/test.conf", []byte(override), 0o644))
	h.systemctl("daemon-reload")
	client, err := api.Dial(api.Options{Socket: "/run/execd/agent.sock", RetryFor: patience})
	h.check(err)
	h.client = client
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("journalctl", "-b", "--no-pager", "-u", "execd", "-n", "100").CombinedOutput()
			t.Logf("the journal has\n%s", out)
		}
		_ = exec.Command("systemctl", "stop", "execd", "execd-jobs.scope").Run()
	})
	return h
}

func (h *host) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) systemctl(args ...string) {
	h.t.Helper()
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		h.t.Fatalf("systemctl %q: %v\n%s", args, err, out)
	}
}

// property returns a property that systemd has of the service.
func (h *host) property(name string) string {
	h.t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "--property="+name, "execd").Output()
	h.check(err)
	return strings.TrimSpace(string(out))
}

// until waits for a condition.
func (h *host) until(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within %s: %s", patience, what)
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 5e7}, nil)
	}
}

// runs checks that the job runs, and that the agent knows it.
func (h *host) runs(after string, job *os.Process) {
	h.t.Helper()
	if err := job.Signal(unix.Signal(0)); err != nil {
		h.t.Fatalf("after %s the job is gone: %v", after, err)
	}
	jobs, err := h.client.Jobs(context.Background())
	if err != nil || len(jobs) != 1 || string(jobs[0].State) != "running" {
		h.t.Errorf("after %s the agent has the jobs %+v (%v)", after, jobs, err)
	}
}

// TestService does to the service what happens to services, while a job runs.
func TestService(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd, testenv.Guest)
	h := install(t)
	h.systemctl("start", "execd") // returns when it is ready
	if s := h.property("StatusText"); s == "" {
		t.Error("the status says nothing")
	}
	script := "cat /proc/self/cgroup /proc/self/oom_score_adj >" + h.dir + "/new; ulimit -Sn >>" + h.dir + "/new\n" +
		"echo $$ >" + h.dir + "/pid; mv " + h.dir + "/new " + h.dir + "/told; exec sleep 10000\n"
	_, err := h.client.Start(t.Context(), api.Start{
		Job: 1, Owner: "alice", Command: []string{"-wd", "/", "-o", "/dev/null", "-j", "y", "-S", "/bin/sh"}, Script: script,
		Grants: []api.Grant{{Queue: "all.q", Host: "node1", Slots: 1}},
	})
	h.check(err)
	h.until("the job has begun", func() bool { _, err := os.Stat(h.dir + "/told"); return err == nil })
	told, err := os.ReadFile(h.dir + "/told")
	h.check(err)
	if !strings.Contains(string(told), "/execd-jobs.scope/") || !strings.HasSuffix(string(told), "\n0\n1024\n") {
		t.Errorf("group, oom_score_adj and descriptors of the job are\n%s", told)
	}
	pid, err := os.ReadFile(h.dir + "/pid")
	h.check(err)
	job := findProcess(t, strings.TrimSpace(string(pid)))
	h.until("the agent sees it", func() bool {
		jobs, err := h.client.Jobs(t.Context())
		return err == nil && len(jobs) == 1 && string(jobs[0].State) == "running"
	})

	h.systemctl("reload", "execd")
	h.runs("a reload", job)
	h.systemctl("restart", "execd")
	h.runs("a restart", job)
	for _, command := range []string{"daemon-reload", "daemon-reexec"} {
		h.systemctl(command)
		h.runs(command, job)
	}

	for what, sig := range map[string]unix.Signal{"SIGKILL": unix.SIGKILL, "a hang": unix.SIGSTOP} {
		before, restarts := h.property("MainPID"), h.property("NRestarts")
		h.check(findProcess(t, before).Signal(sig))
		h.until("it is started again after "+what, func() bool {
			return h.property("NRestarts") != restarts && h.property("ActiveState") == "active" && h.property("MainPID") != before
		})
		h.runs(what, job)
	}

	answer, err := http.Get("http://127.0.0.1:9446/healthz")
	h.check(err)
	body, err := io.ReadAll(answer.Body)
	h.check(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"jobs":1`) {
		t.Errorf("/healthz: %s, %s", answer.Status, body)
	}

	h.systemctl("stop", "execd")
	if err := job.Signal(unix.Signal(0)); err != nil {
		t.Errorf("after a stop the job is gone: %v", err)
	}
	h.systemctl("stop", "execd-jobs.scope")
	h.until("the job is gone with its scope", func() bool { return job.Signal(unix.Signal(0)) != nil })
}

// findProcess returns a process by its number, whatever becomes of that.
func findProcess(t *testing.T, pid string) *os.Process {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n) // with a descriptor, from Linux 5.4
	if err != nil {
		t.Fatal(err)
	}
	return p
}
