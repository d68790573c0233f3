package shepherd

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// under starts the shepherd through a program that executes it.
func under(program ...string) func(cmd *exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = append(append(program, cmd.Path), cmd.Args...)
		cmd.Path = program[0]
	}
}

// limitedTo starts the shepherd with a hard limit, an option of ulimit(1).
func limitedTo(option string) func(cmd *exec.Cmd) {
	return under("/bin/sh", "-c", "ulimit "+option+` && p=$1 && shift 2 && exec "$p"`, "sh")
}

// TestLimitThatCannotBeRaised checks that such a limit does not fail a job, whether the kernel
// refuses it to root, which has reached its own limit, or to the root of a user namespace, which
// has all capabilities and still may not raise limits.
func TestLimitThatCannotBeRaised(t *testing.T) {
	t.Parallel()
	needRoot(t)
	b, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		t.Fatal(err)
	}
	nrOpen, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// In many containers root lacks CAP_SYS_RESOURCE.
	mayRaise := exec.Command("/bin/sh", "-c", "ulimit -c 1000 && ulimit -c 2000").Run() == nil
	for sentence, c := range map[string]struct {
		namespace bool
		ulimit    string
		limit     func(d *job.Description)
		name      string // in /proc/PID/limits
		want      string // soft and hard
		warning   string
	}{
		"more descriptors than fs.nr_open": {false, "-n 3000", func(d *job.Description) {
			d.HostSlots = int(nrOpen/65535) + 1
			d.Limits[job.Descriptors] = job.Limit{Soft: 65535, Hard: 65535}
		}, "Max open files", fmt.Sprint(nrOpen), fmt.Sprintf("cannot raise RLIMIT_NOFILE from 3000 to %d; it is raised to %d", (nrOpen/65535+1)*65535, nrOpen)},
		"root may raise what has no end": {false, "-c 1000", func(d *job.Description) {
			d.Limits[job.Core] = job.Limit{Soft: none, Hard: none}
		}, "Max core file size", "unlimited", ""},
		"root of a user namespace may not": {true, "-c 1000", func(d *job.Description) {
			d.Limits[job.Core] = job.Limit{Soft: none, Hard: none}
		}, "Max core file size", "512000", "cannot raise RLIMIT_CORE from 512000 to INFINITY; it stays at 512000"},
		"nor open more files": {true, "-n 3000", func(d *job.Description) {
			d.Limits[job.Descriptors] = job.Limit{Soft: 4000, Hard: 4000}
		}, "Max open files", "3000", "cannot raise RLIMIT_NOFILE from 3000 to 4000; it stays at 3000"},
		"it may restrict": {true, "-n 3000", func(d *job.Description) {
			d.Limits[job.Descriptors] = job.Limit{Soft: 2000, Hard: 2000}
		}, "Max open files", "2000", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if (strings.Contains(c.warning, "raised to") || c.warning == "") && !c.namespace && !mayRaise {
				t.Skip("root may not raise limits here")
			}
			j := newJob(t, asRoot, "cat /proc/self/limits")
			c.limit(j.d)
			j.change = func(cmd *exec.Cmd) {
				limitedTo(c.ulimit)(cmd)
				if c.namespace {
					same := []syscall.SysProcIDMap{{Size: 1 << 16}}
					cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
					cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = same, same
					cmd.SysProcAttr.GidMappingsEnableSetgroups = true
				}
			}
			j.run()
			j.expect(0)
			if got := rlimits(t, j.output("out"))[c.name]; got != [2]string{c.want, c.want} {
				t.Errorf("%s is %v, want %s", c.name, got, c.want)
			}
			trace := j.file("trace")
			if !strings.Contains(trace, c.warning) || c.warning == "" && strings.Contains(trace, "cannot raise") {
				t.Errorf("no %q in the trace", c.warning)
			}
		})
	}
}

// TestRestrictionThatIsRefused checks that the job fails: without the restriction it would have
// more than it may.
func TestRestrictionThatIsRefused(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "echo it runs")
	j.d.Limits[job.Vmem] = job.Limit{Soft: none, Hard: 1 << 30}
	j.change = under(base + "/bin/refuse")
	j.run()
	if j.failed() == 0 || j.output("out") != "" {
		t.Errorf("the job has run: %q", j.output("out"))
	}
	j.expectError("cannot set limit RLIMIT_")
}
