package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

const mb = 1 << 20

// orderOf returns an order for a command with options of qsub, in a new spool area. The command runs as the
// user who runs the tests.
func orderOf(t testing.TB, options ...string) (*jobdir.Spool, *Assignment) {
	t.Helper()
	testenv.Require(t, testenv.Cgroup)
	request, err := submit.Parse(submit.Input{Args: append(options, "-b", "y", "-N", "n", "/bin/true"), Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Resolve(qconf.Builtin(runtime.NumCPU()), request, "all.q", "host")
	if err != nil {
		t.Fatal(err)
	}
	o.Owner = &userdb.User{Name: "nobody", UID: 65534, GID: 65534, Home: "/"}
	if uid := os.Getuid(); uid != 0 {
		o.Owner.UID, o.Owner.GID = uint32(uid), uint32(os.Getgid())
	}
	o.Queue.Tmpdir = t.TempDir()
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	if o.Groups, err = OpenGroups(spool, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if names, err := o.Groups.manager.Names(); err != nil || len(names) > 0 {
			t.Errorf("groups are left over: %q, %v", names, err)
			_, _ = o.Groups.manager.Sweep(time.Minute, func(string) bool { return true })
		}
		o.Groups.Close()
	})
	return spool, o
}

func prepared(t testing.TB, spool *jobdir.Spool, o *Assignment) *Job {
	t.Helper()
	j, err := Prepare(spool, o, job.ID{Job: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Dir.Close() })
	return j
}

// recorded reads the paths of the group from the job directory, as the supervisor does.
func recorded(t *testing.T, j *Job) *group.Paths {
	t.Helper()
	text, err := j.Dir.ReadFile(jobdir.FileCgroup)
	if err != nil {
		t.Fatal(err)
	}
	p, err := group.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dirsOf are the directories of the group of a job, if it has one.
func dirsOf(j *Job) []string {
	if j.group == nil {
		return nil
	}
	return j.group.Dirs
}

// need skips the test where groups cannot do something.
func need(t *testing.T, o *Assignment, f cgroup.Feature) {
	t.Helper()
	if err := o.Groups.manager.System().Check(f); err != nil {
		t.Skip(err)
	}
}

func number(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestGroupHasTheLimitsOfTheJob(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_vmem=64M,h_rss=32M")
	need(t, o, cgroup.MemoryLimit)
	j := prepared(t, spool, o)
	p := recorded(t, j)
	if p.VmemLimit != 64*mb || p.RSSLimit != 32*mb {
		t.Errorf("the supervisor is told of h_vmem %d and h_rss %d", p.VmemLimit, p.RSSLimit)
	}
	for _, path := range []string{p.File[group.MemoryUsage], p.File[group.MemoryCurrent]} {
		name := map[string]string{"memory.usage_in_bytes": "memory.limit_in_bytes", "memory.current": "memory.max"}[filepath.Base(path)]
		if path == "" {
			continue
		}
		if got := number(t, filepath.Dir(path)+"/"+name); got != fmt.Sprint(32*mb) {
			t.Errorf("%s is %s", name, got)
		}
	}
	if len(j.Notes) > 0 {
		t.Errorf("notes: %q", j.Notes)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	for _, d := range p.Dirs {
		if exists(d) {
			t.Errorf("%s is left over", d)
		}
	}
}

// TestGroupOfAJobWithoutLimits checks that only control groups for limits delay the start of a job:
// the group of processes, which each job has, takes almost no time.
func TestGroupOfAJobWithoutLimits(t *testing.T) {
	spool, o := orderOf(t)
	j := prepared(t, spool, o)
	if j.group != nil {
		for _, d := range recorded(t, j).Dirs {
			if d != j.group.Unified && d != filepath.Dir(j.group.File[group.PidsMax]) {
				t.Errorf("the job has a group in %s", d)
			}
		}
	} else if ok, err := j.Dir.Exists(jobdir.FileCgroup); ok || err != nil {
		t.Errorf("without a group there is a file of it (%v)", err)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}

func TestJobWithoutAGroupThatItNeedsIsNotLeftBehind(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_rss=1G")
	need(t, o, cgroup.MemoryLimit)
	other := prepared(t, spool, o)
	taken := other.group
	text, err := other.Dir.ReadFile(jobdir.FileCgroup)
	if err != nil {
		t.Fatal(err)
	}
	other.group = nil // of somebody else: its directory goes, it stays
	if err := other.Remove(false); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(spool, o, job.ID{Job: 7}); !errors.Is(err, cgroup.ErrExists) {
		t.Errorf("Prepare: %v", err)
	}
	if ids, err := spool.Jobs(); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
	if entries, err := os.ReadDir(o.Queue.Tmpdir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if !exists(taken.Dirs[0]) {
		t.Errorf("the group of somebody else has been removed:\n%s", text)
	}
	// It has no directory, and is removed by the next who looks.
	if _, err := Sweep(spool, o.Groups, nil); err != nil || exists(taken.Dirs[0]) {
		t.Errorf("a group without a job was not swept: %v", err)
	}
}

// enters returns a supervisor that puts a process into the group of the job, which
// then writes its number to pid, and does the rest.
func enters(t *testing.T, rest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shepherd")
	text := `#!/bin/sh
exec </dev/null >/dev/null 2>&1
setsid sh -c '
	for d in $(sed -n s/^dir=//p cgroup); do echo 0 > $d/cgroup.procs || exit; done
	(sleep 1000 & echo $! > pid.new; mv pid.new pid)
	exec sleep 1000
' 3>&- & # the lock of the directory
while ! test -s pid; do sleep 0.01; done
` + rest + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// running reports whether the process of enters runs.
func running(t *testing.T, j *Job) bool {
	t.Helper()
	pid, err := j.Dir.ReadNumber("pid")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestNothingIsLeftOfAJobWhoseSupervisorWasKilled(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_rss=1G")
	need(t, o, cgroup.MemoryLimit)
	o.Terminal = true
	j := prepared(t, spool, o)
	p := recorded(t, j)
	devnull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer devnull.Close()
	done, err := j.Start(enters(t, "kill -KILL $$"), devnull, devnull)
	if err != nil {
		t.Fatal(err)
	}
	status := <-done
	if !running(t, j) {
		t.Fatal("the job does not run")
	}
	j.strays = nil // descendants are not looked for: the group has to do
	j.shepherd.pid = 0
	start := time.Now()
	j.endGroup()
	took := time.Since(start)
	// With version 2 a process leaves its group a moment before it becomes a zombie.
	for deadline := start.Add(time.Minute); running(t, j); {
		if time.Now().After(deadline) {
			t.Fatal("a process of the job is left")
		}
		runtime.Gosched()
	}
	t.Attr("end_of_the_job", took.String())
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
	o2 := j.Collect(status)
	if o2.Failed != job.FailedNoExitStatus && o2.Failed != job.FailedBeforeProlog {
		t.Errorf("failed %d", o2.Failed)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	for _, d := range p.Dirs {
		if exists(d) {
			t.Errorf("%s is left over", d)
		}
	}
}

// TestSweepEndsWhatIsLeftOfAJob checks that Sweep ends a job that continues after its supervisor and
// the foreground process were killed.
func TestSweepEndsWhatIsLeftOfAJob(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_rss=1G")
	need(t, o, cgroup.MemoryLimit)
	o.Terminal = true
	j := prepared(t, spool, o)
	p := recorded(t, j)
	done, err := j.Start(enters(t, "kill -KILL $$"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	lookup := func(string) (*userdb.User, error) { return o.Owner, nil }
	if list, err := Sweep(spool, o.Groups, lookup); err != nil || len(list) > 0 || !running(t, j) {
		t.Errorf("a job that is waited for was swept: %v, %v", list, err)
	}
	pid, err := j.Dir.ReadNumber("pid")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = j.Dir.Close() // as the end of the process in the foreground does
	list, err := Sweep(spool, o.Groups, lookup)
	if err != nil || len(list) != 1 || list[0].Err != nil {
		t.Errorf("swept: %v, %v", list, err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 || err != nil {
		t.Errorf("the process of the job lives: %v", err)
	}
	reap()
	for _, d := range p.Dirs {
		if exists(d) {
			t.Errorf("%s is left over", d)
		}
	}
	if exists(j.Dir.Path()) {
		t.Errorf("%s is left over", j.Dir.Path())
	}
}

// TestSweepOfAnotherArea checks that Sweep leaves jobs alone that have the same numbers in another
// spool directory.
func TestSweepOfAnotherArea(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_rss=1G")
	need(t, o, cgroup.MemoryLimit)
	j := prepared(t, spool, o)
	other, o2 := orderOf(t)
	if _, err := Sweep(other, o2.Groups, nil); err != nil {
		t.Error(err)
	}
	if !exists(j.group.Dirs[0]) {
		t.Errorf("%s is gone", j.group.Dirs[0])
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}

func TestWithoutGroupsAJobRunsAndSaysWhatIsNotEnforced(t *testing.T) {
	spool, o := orderOf(t, "-l", "h_vmem=1G")
	proc := t.TempDir()
	if err := os.Mkdir(proc+"/self", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mountinfo", "cgroup"} {
		if err := os.WriteFile(proc+"/self/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := cgroup.Open(cgroup.Config{Proc: proc})
	if err != nil {
		t.Fatal(err)
	}
	o.Groups.manager, m = m, o.Groups.manager
	defer func() { o.Groups.manager = m }()
	j := prepared(t, spool, o)
	if _, err := j.Dir.ReadFile(jobdir.FileCgroup); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a group: %v", err)
	}
	const want = "h_vmem of the whole job can only be watched: cannot limit the RAM of a group: needs the memory controller: no cgroup hierarchy is mounted"
	if len(j.Notes) != 1 || j.Notes[0] != want {
		t.Errorf("notes: %q", j.Notes)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}

	o.Request, err = submit.Parse(submit.Input{Args: []string{"-b", "y", "/bin/true"}, Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if j = prepared(t, spool, o); len(j.Notes) > 0 {
		t.Errorf("a job without limits has the notes %q", j.Notes)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfAGroupFollowTheConfiguration(t *testing.T) {
	cores := binding.Affinity{CPUs: topology.Of(0, 2), Mems: topology.Of(0)}
	for sentence, c := range map[string]struct {
		params  string
		binding binding.Affinity
		slots   int
		request string
		want    cgroup.Limits
	}{
		"nothing is limited":         {request: "h_rt=1", want: cgroup.Limits{}},
		"limits are per slot":        {request: "h_vmem=100M,h_rss=50M", slots: 3, want: cgroup.Limits{Vmem: 300 * mb, RSS: 150 * mb, Counted: true}},
		"soft limits are counted":    {request: "s_vmem=100M", want: cgroup.Limits{Counted: true}},
		"h_vmem is not for a group":  {params: "h_vmem_limit=false", request: "h_vmem=100M", want: cgroup.Limits{Counted: true}},
		"h_rss is not for a group":   {params: "h_rss_limit=false", request: "h_rss=100M", want: cgroup.Limits{Counted: true}},
		"a limit that is too small":  {params: "min_memory_limit=1G", request: "h_vmem=100M", want: cgroup.Limits{Vmem: 1 << 30, Counted: true}},
		"cores":                      {binding: cores, request: "h_rt=1", want: cgroup.Limits{CPUs: "0,2", Mems: "0"}},
		"cores without cpusets":      {params: "cpuset=0", binding: cores, request: "h_rt=1", want: cgroup.Limits{}},
		"processes per slot":         {params: "pids_limit=100", slots: 2, request: "h_rt=1", want: cgroup.Limits{Pids: 200}},
		"a weight for each slot":     {params: "cpu_weight=true", slots: 4, request: "h_rt=1", want: cgroup.Limits{CPUWeight: 400}},
		"a weight of many slots":     {params: "cpu_weight=true", slots: 400, request: "h_rt=1", want: cgroup.Limits{CPUWeight: 10000}},
		"a weight of one slot":       {params: "cpu_weight=true", request: "h_rt=1", want: cgroup.Limits{CPUWeight: 100}},
		"no weight":                  {params: "cpu_weight=false", slots: 4, request: "h_rt=1", want: cgroup.Limits{}},
		"h_vmem is an address space": {params: "x", request: "h_vmem=1G", want: cgroup.Limits{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			text := "cgroups_params pids_limit=0,cpu_weight=false," + c.params + "\n"
			if c.params == "x" {
				text = "cgroups_params pids_limit=0\nexecd_params VMEM_LIMIT=both,[all.q=address_space]\n"
			}
			config, err := qconf.ParseConfiguration("global", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, o := orderOf(t, "-l", c.request)
			o.Config, o.Slots = config, max(c.slots, 1)
			o.Groups.params = config.CgroupsParams
			d, err := o.Describe(job.ID{Job: 7}, "/spool", "")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := o.Groups.limits(d, c.binding, nil); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v; expected %+v", got, err, c.want)
			}
		})
	}
}

func TestSupervisorGetsEnabledGroupFilesOnly(t *testing.T) {
	spool, o := orderOf(t)
	need(t, o, cgroup.Freeze)
	o.Groups.params.Freezer, o.Groups.params.Killing = false, false
	o.Groups.params.Pids = 1000
	need(t, o, cgroup.PidsLimit)
	j := prepared(t, spool, o)
	p := recorded(t, j)
	for _, f := range []group.File{group.CgroupKill, group.CgroupFreeze, group.FreezerState} {
		if p.File[f] != "" {
			t.Errorf("it is told of %s", p.File[f])
		}
	}
	if got := number(t, p.File[group.PidsMax]); got != "1000" {
		t.Errorf("pids.max is %s", got)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}

// TestDevices checks that only jobs that have been granted a device can open it, under any name.
func TestDevices(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup)
	spool, o := orderOf(t)
	config, err := qconf.ParseConfiguration("global", []byte("cgroups_params devices=/dev/ful*|/dev/none[0-3]|/dev/shm\n"))
	if err != nil {
		t.Fatal(err)
	}
	o.Config = config
	o.Groups.Close()
	if o.Groups, err = OpenGroups(spool, o); err != nil {
		t.Fatal(err)
	}
	need(t, o, cgroup.Devices)
	for sentence, c := range map[string]struct {
		granted string
		can     bool
	}{
		"not granted":             {"", false},
		"granted":                 {"/dev/full", true},
		"granted by another name": {"/proc/self/root/dev/full", true},
		"another one granted":     {"/dev/null", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			o.Devices = nil
			if c.granted != "" {
				o.Devices = []string{c.granted}
			}
			j := prepared(t, spool, o)
			enter := ""
			for _, d := range dirsOf(j) {
				enter += "echo 0 > " + d + "/cgroup.procs || exit 99\n"
			}
			out, err := exec.Command("/bin/sh", "-c", enter+"exec 2>&1; : < /dev/zero && head -c1 /dev/full").Output()
			if (err == nil) != c.can {
				t.Errorf("%v, %q", err, out)
			}
			if err := j.Remove(false); err != nil {
				t.Error(err)
			}
		})
	}
	for _, path := range []string{"/dev/there-is-no-such-device", "/etc/passwd"} {
		o.Devices = []string{path}
		if j, err := Prepare(spool, o, job.ID{Job: 7}); err == nil {
			t.Errorf("%s was granted", path)
			_ = j.Remove(false)
		}
	}
	if ids, err := spool.Jobs(); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// TestCoresOutsideParentGroup checks a group whose parents have fewer processors than this process.
func TestCoresOutsideParentGroup(t *testing.T) {
	spool, o := orderOf(t)
	need(t, o, cgroup.Cpuset)
	j := prepared(t, spool, o)
	if err := j.removeGroup(); err != nil {
		t.Fatal(err)
	}
	j.Affinity = binding.Affinity{CPUs: topology.Of(9999), Mems: topology.Of(0)}
	if err := j.makeGroup(nil); err != nil {
		t.Error(err)
	}
	if len(j.Notes) != 1 || !strings.HasPrefix(j.Notes[0], "the job could leave its processors: cannot set the limits of group") {
		t.Errorf("notes: %q", j.Notes)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
}
