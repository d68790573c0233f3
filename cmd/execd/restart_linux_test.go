package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 2e7}, nil)
	}
}

// TestJobsOutliveRestart checks that a job and its limit survive if the service in which execd run was
// started is killed and started again, and systemd reloads and replaces itself. The next execd run
// reports the outcome of the job.
func TestJobsOutliveRestart(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd, testenv.Guest)
	build(t)
	const unit = "execd-restart.service"
	dir := openDir(t)
	w := &world{dir: dir}
	systemctl := func(args ...string) string {
		out, _ := exec.Command("systemctl", args...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	script := w.write(t, "job", "#!/bin/sh\ncat /proc/self/cgroup > "+dir+"/group.$JOB_ID\n"+
		"while ! test -e "+dir+"/go; do sleep 0.1; done\nhead -c 300M /dev/zero | tail | sleep 1\n")
	text := "[Service]\nExecStart=" + base + "/bin/execd run --as alice -wd / -l h_rss=64M -o /dev/null -j y " + script +
		"\nStandardError=append:" + dir + "/err\nKillSignal=SIGKILL\n"
	if err := os.WriteFile("/run/systemd/system/"+unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		systemctl("stop", unit)
		_ = os.Remove("/run/systemd/system/" + unit)
		systemctl("daemon-reload")
	})
	systemctl("daemon-reload")
	systemctl("start", unit)
	// The numbers of jobs are those of this guest's spool area.
	numbers := func() []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, e := range entries {
			if n, ok := strings.CutPrefix(e.Name(), "group."); ok {
				if info, err := e.Info(); err == nil && info.Size() > 0 {
					list = append(list, n)
				}
			}
		}
		return list
	}
	until(t, "the first job", func() bool { return len(numbers()) == 1 })
	first := numbers()[0]
	group, err := os.ReadFile(dir + "/group." + first)
	if err != nil || !strings.Contains(string(group), "/execd-jobs.scope/") {
		t.Errorf("the job is in %q, %v", group, err)
	}
	for _, command := range [][]string{{"restart", unit}, {"daemon-reload"}, {"daemon-reexec"}} {
		systemctl(command...)
	}
	until(t, "the second job", func() bool { return len(numbers()) == 2 })
	if b, err := os.ReadFile("/var/spool/execd/active_jobs/" + first + ".1/exit_status"); err == nil && len(b) > 0 {
		t.Errorf("the first job has ended: %s", b)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the service", func() bool { return systemctl("is-active", unit) != "active" })
	until(t, "the end of the scope", func() bool { return systemctl("is-active", "execd-jobs.scope") == "inactive" })
	r := finish(t, exec.Command(base+"/bin/execd", "run", "--as", "alice", "-wd", "/", "-b", "y", "true"))
	second, err := os.ReadFile(dir + "/err")
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		fmt.Sprintf("cleaned up behind an execd run that was killed: job %s (job) exceeded limit h_rss of 67108864 bytes", first): r.stderr,
		"(job) exceeded limit h_rss of 67108864 bytes": string(second),
	} {
		if !strings.Contains(text, what) {
			t.Errorf("%q is not said, but %s", what, text)
		}
	}
}
