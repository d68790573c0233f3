package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/scope"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

// ownGroup is a script that prints the v2 group of the job.
const ownGroup = "#!/bin/sh\nsed -n s/^0:://p /proc/self/cgroup\n"

// detect looks once: who looks at the same time in the same process gets in the
// way of the other.
var detect = sync.OnceValues(func() (*cgroup.System, error) { return cgroup.Detect(cgroup.Config{}) })

// needs skips the test where groups cannot do something.
func needs(t *testing.T, list ...cgroup.Feature) {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Cgroup)
	s, err := detect()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		// The scope of systemd, which jobs will get, has everything.
		if err := s.Check(f); err != nil && (!scope.Booted() || !scope.Unified()) {
			t.Skip(err)
		}
	}
}

// groups are those of jobs of the world.
func (w *world) groups(t *testing.T) []string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(w.spool, &st); err != nil {
		t.Fatal(err)
	}
	s, err := detect()
	if err != nil {
		t.Fatal(err)
	}
	parents := []string{scope.Mount + "/system.slice/" + scope.Name}
	for _, h := range s.Hierarchies {
		parents = append(parents, h.Parent)
	}
	var list []string
	for _, parent := range parents {
		found, err := filepath.Glob(fmt.Sprintf("%s/execd-%x-%x/*.*", parent, st.Dev, st.Ino))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && info.IsDir() {
				list = append(list, f)
			}
		}
	}
	return list
}

func (w *world) noGroups(t *testing.T) {
	t.Helper()
	if list := w.groups(t); len(list) > 0 {
		t.Errorf("groups are left over: %q", list)
	}
}

func TestJobsAreInAGroup(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.Kill)
	w := inWorld(t, asRoot)
	script := w.write(t, "job", ownGroup)
	r := w.run(t, "--as", "alice", "-cwd", script)
	if !strings.HasPrefix(r.stdout, "/") || !strings.HasSuffix(r.stdout, "/1.1\n") {
		t.Errorf("the job is in %q; %s", r.stdout, r.stderr)
	}
	w.noGroups(t)
	for _, text := range []string{"cgroups_params cgroup_path=none\n", "execd_params USE_CGROUPS=false\n"} {
		w.write(t, "conf/conf/global", text)
		if r := w.run(t, "--as", "alice", "-cwd", "--conf", "conf", script); strings.HasSuffix(r.stdout, ".1\n") {
			t.Errorf("with %q the job is in %q", text, r.stdout)
		}
	}
}

// TestGroupOfAUser checks that jobs get control groups in a group that was delegated to an ordinary
// user, and that execd run itself leaves that group.
func TestGroupOfAUser(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.Kill)
	s, err := detect()
	if err != nil {
		t.Fatal(err)
	}
	top := s.Where(cgroup.Kill)
	mine, err := os.MkdirTemp(top.Mount, "execd-test-") //nolint:usetesting // it is not a directory of a file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{"/" + cgroup.SelfName, ""} {
			if err := os.Remove(mine + d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	// Who gives a group away says so of these, too (cgroup-v2.rst, "Model of
	// Delegation").
	for _, name := range []string{"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"} {
		if err := os.Chown(mine+name, alice, alice); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(mine)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w := inWorld(t, asUser)
	cmd := w.command("run", "-cwd", w.write(t, "job", ownGroup))
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	r := finish(t, cmd)
	if want := filepath.Base(mine) + "/execd-"; !strings.Contains(r.stdout, want) || !strings.HasSuffix(r.stdout, "/1.1\n") {
		t.Errorf("the job is in %q instead of %q; %s", r.stdout, want, r.stderr)
	}
	left, err := filepath.Glob(mine + "/execd-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestTasksHaveGroupsOneAfterAnother checks that consecutive tasks have control groups, each with its
// own limits.
func TestTasksHaveGroupsOneAfterAnother(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.MemoryLimit)
	w := inWorld(t, asRoot)
	script := w.write(t, "job", ownGroup+"[ $SGE_TASK_ID = 2 ] || exit 0\nhead -c 300M /dev/zero | tail | sleep 1\n")
	r := w.run(t, "--as", "alice", "-cwd", "-t", "1-3", "-l", "h_rss=64M", script)
	if r.status == 0 || !strings.Contains(r.stderr, "job 1.2 (job) exceeded limit h_rss of 67108864 bytes") ||
		!strings.Contains(r.stderr, "2 of 3 tasks ended with exit status 0; others: 2") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	w.noGroups(t)
}

// TestNextRunCleansUpAfterKilledSupervisor kills the supervisor and execd run, so that neither can
// clean up; the next execd run does.
func TestNextRunCleansUpAfterKilledSupervisor(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.Kill)
	w := inWorld(t, asRoot)
	// The job leaves session, process group and parent; the group it cannot leave.
	script := w.write(t, "job", "#!/bin/sh\n(setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 1000' &)\nsleep 1000\n")
	l := w.start(t, "--as", "alice", "-cwd", script)
	left := 0
	for deadline := time.Now().Add(patience); left == 0 && time.Now().Before(deadline); {
		if b, err := os.ReadFile(w.dir + "/left"); err == nil {
			_, _ = fmt.Sscan(string(b), &left)
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
	}
	fd, err := unix.PidfdOpen(left, 0)
	if err != nil {
		t.Fatal(left, err)
	}
	defer unix.Close(fd)
	defer func() { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }()
	b, err := os.ReadFile(w.spool + "/active_jobs/1.1/pid")
	if err != nil {
		t.Fatal(err)
	}
	var shepherd int
	if _, err := fmt.Sscan(string(b), &shepherd); err != nil {
		t.Fatal(err)
	}
	// execd first: it would clean up.
	l.signal(unix.SIGKILL)
	_ = l.cmd.Wait()
	supervisor, err := unix.PidfdOpen(shepherd, 0)
	if err != nil {
		t.Fatal(shepherd, err)
	}
	defer unix.Close(supervisor)
	// It holds the lock of the job's directory until it is gone.
	if err := unix.PidfdSendSignal(supervisor, unix.SIGKILL, nil, 0); err != nil || !testenv.Ended(supervisor, patience) {
		t.Fatalf("the supervisor does not end: %v", err)
	}
	if testenv.Ended(fd, 0) {
		t.Error("the process of the job has ended by itself: nothing is tested")
	}
	start := time.Now()
	r := w.run(t, "--as", "alice", "-b", "y", "true")
	if !strings.Contains(r.stderr, "cleaned up behind an execd run that was killed: job 1 (job) ") {
		t.Errorf("%s", r.stderr)
	}
	if !testenv.Ended(fd, 0) {
		t.Error("a process of the job is left")
	}
	t.Attr("swept_within", time.Since(start).String())
	w.gone(t)
	w.noGroups(t)
}

// TestLimitsWithoutGroups checks that a job runs on a host without control groups, and that execd says
// once which limits it cannot enforce.
func TestLimitsWithoutGroups(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Root)
	w := inWorld(t, asUser) // alice, who may make no groups
	script := w.write(t, "job", "#!/bin/sh\nexit 0\n")
	r := w.run(t, "-cwd", "-t", "1-2", "-l", "h_vmem=500M", "--json", "out", script)
	if r.status != 0 || strings.Count(r.stderr, "h_vmem of the whole job can only be watched: cannot limit the RAM of a group: needs the memory controller") != 1 {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	var o []struct{ Notes []string }
	if w.outcome(t, "out", &o); len(o) != 2 || len(o[0].Notes) != 1 || len(o[1].Notes) != 1 {
		t.Errorf("notes %+v", o)
	}
	if r := w.run(t, "-cwd", script); strings.Count(r.stderr, "execd:") != 1 {
		t.Errorf("a job without limits: %s", r.stderr)
	}
}

func TestDeniedDevices(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.Devices)
	w := inWorld(t, asRoot)
	w.write(t, "conf/conf/global", "cgroups_params devices=/dev/full\n")
	script := w.write(t, "job", "#!/bin/sh\nhead -c1 /dev/full | wc -c\n")
	for want, args := range map[string][]string{"0\n": nil, "1\n": {"--device", "/dev/full"}} {
		r := w.run(t, append(args, "--as", "alice", "--conf", "conf", "-cwd", script)...)
		if strings.TrimSpace(r.stdout)+"\n" != want {
			t.Errorf("%v: %q, %s", args, r.stdout, r.stderr)
		}
	}
	if r := w.run(t, "--device", "/dev/none", "--as", "alice", "--conf", "conf", "-cwd", script); r.status != 125 ||
		!strings.Contains(r.stderr, `cannot grant the device "/dev/none"`) {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	w.gone(t)
	u := inWorld(t, asUser)
	if r := u.run(t, "--device", "/dev/full", "-b", "y", "true"); r.status != 2 || !strings.Contains(r.stderr, "only root may grant devices") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
}

func TestVmemLimitOfTheQueue(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asUser)
	w.write(t, "conf/conf/global", "execd_params VMEM_LIMIT=both,[big.q=memory]\n")
	w.write(t, "conf/queues/big.q", "qname big.q\nshell /bin/sh\nshell_start_mode unix_behavior\n")
	w.write(t, "conf/queues/all.q", "qname all.q\nshell /bin/sh\nshell_start_mode unix_behavior\n")
	script := w.write(t, "job", "#!/bin/sh\nulimit -v\n")
	for queue, want := range map[string]string{"all.q": "1048576\n", "big.q": "unlimited\n"} {
		if r := w.run(t, "--conf", "conf", "--queue", queue, "-cwd", "-l", "h_vmem=1G", script); r.stdout != want {
			t.Errorf("in %s RLIMIT_AS is %q; %s", queue, r.stdout, r.stderr)
		}
	}
}

// TestDoctor runs it as root, as an ordinary user, and where there is neither
// /sys nor a control group.
func TestDoctor(t *testing.T) {
	t.Parallel()
	build(t)
	doctor := func(cmd *exec.Cmd, statuses string) {
		t.Helper()
		r := finish(t, cmd)
		if !strings.Contains(statuses, fmt.Sprint(r.status)) || r.stderr != "" {
			t.Errorf("%v: status %d, %s", cmd.Args, r.status, r.stderr)
		}
		if strings.Contains(strings.Join(cmd.Args, " "), "json") {
			var v struct {
				Status int
				Checks []struct{ Name, State string }
			}
			if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || v.Status != r.status || len(v.Checks) < 15 {
				t.Errorf("%v, %s", err, r.stdout)
			}
		} else if !strings.Contains(r.stdout, "\ns_vmem h_vmem ") {
			t.Errorf("%s", r.stdout)
		}
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		doctor(exec.Command(base+"/bin/execd", args...), "03")
		if os.Getuid() != 0 {
			continue
		}
		doctor(inWorld(t, asUser).command(args...), "03")
		doctor(exec.Command("unshare", append([]string{"-m", "sh", "-c", `umount -R /sys && exec "$@"`, "sh", base + "/bin/execd"}, args...)...), "3")
	}
	if r := finish(t, exec.Command(base+"/bin/execd", "doctor", "--frob")); r.status != 2 || !strings.Contains(r.stderr, "see execd doctor --help") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	if r := finish(t, exec.Command(base+"/bin/execd", "doctor", "--conf", "/none")); r.status != 125 {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
}
