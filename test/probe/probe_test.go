package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestProbe runs the program below a shell and compares the report with the conditions that the
// test set up, so that a probe that reports constants fails.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"bin", "seen", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "bin", "probe")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build the probe: %v\n%s", err, out)
	}
	for _, name := range []string{"addgrpid", "job_pid"} {
		if err := os.WriteFile(filepath.Join(dir, "spool", name), []byte("1\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	script := `umask 027; ulimit -Sn 77; trap '' USR1; exec 7</dev/null; "$0" job 'a b' exit=9; exit $?`
	cmd := exec.Command("/bin/sh", "-c", script, bin)
	cmd.Dir = dir
	cmd.Env = []string{"JOB_ID=12", "SGE_TASK_ID=undefined", "DOUBLE=x", "SGE_JOB_SPOOL_DIR=" + dir + "/spool"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit status %d, want 9", code)
	}
	if string(out) != "job to stdout\n" || stderr.String() != "job to stderr\n" {
		t.Errorf("printed %q and %q", out, stderr.String())
	}

	text, err := os.ReadFile(filepath.Join(dir, "seen", "12.1.job.1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	self, shell := r.Processes[0], r.Processes[1]
	if want := []string{bin, "job", "a b", "exit=9"}; !slices.Equal(self.Argv, want) {
		t.Errorf("argv %q, want %q", self.Argv, want)
	}
	if !slices.Contains(self.Environ, "DOUBLE=x") || self.Cwd != dir || self.Status["Umask"] != "0027" {
		t.Errorf("environ %q, cwd %q, umask %q", self.Environ, self.Cwd, self.Status["Umask"])
	}
	if got := shell.Limits["open files"]; !strings.HasPrefix(got, "77 ") {
		t.Errorf("the shell's limit of open files is %q, want 77", got)
	}
	const usr1 = 1 << 9
	inherited := ignored(t)
	if got, err := strconv.ParseUint(shell.Status["SigIgn"], 16, 64); err != nil || got != inherited|usr1 {
		t.Errorf("the shell ignores %s, want USR1 (200) beside %x", shell.Status["SigIgn"], inherited)
	}
	if got := self.FDs["7"]; !strings.HasSuffix(got, " /dev/null") {
		t.Errorf("descriptor 7 is %q, want /dev/null", got)
	}
	for n, fd := range self.FDs {
		if strings.Contains(fd, "cgroup") || strings.HasSuffix(fd, "/fd") {
			t.Errorf("descriptor %s, %q, is the probe's own", n, fd)
		}
	}
	if got := r.Spool["addgrpid"]; !strings.HasPrefix(got, "-rw-r-----") {
		t.Errorf("addgrpid is %q, want mode 0640", got)
	}
	if self.Group != shell.Group && shell.Group != "own" || r.Shepherd {
		t.Errorf("group %q below %q, shepherd %v", self.Group, shell.Group, r.Shepherd)
	}
}

// ignored returns the mask of the signals that each process of this test ignores: make starts its
// children with 32 and 33 ignored, and nohup with SIGHUP.
func ignored(t *testing.T) uint64 {
	t.Helper()
	out, err := exec.Command("sed", "-n", `s/^SigIgn:[[:space:]]*//p`, "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(string(out)), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

func TestStatus(t *testing.T) {
	for _, test := range []struct {
		args      []string
		restarted string
		want      int
	}{
		{nil, "0", 0},
		{[]string{"exit=3"}, "1", 3},
		{[]string{"rerun=99"}, "0", 99},
		{[]string{"rerun=99"}, "1", 0},
		{[]string{"rerun=99", "exit=4"}, "1", 4},
		{[]string{"x", "exit=", "exit=7"}, "0", 7},
	} {
		if got := status(test.args, test.restarted); got != test.want {
			t.Errorf("status(%q, %q) = %d, want %d", test.args, test.restarted, got, test.want)
		}
	}
}
