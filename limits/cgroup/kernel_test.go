package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/group"
	"golang.org/x/sys/unix"
)

const patience = 3 * time.Minute

func testConfig() Config {
	return Config{Name: fmt.Sprintf("execd-test-%d", os.Getpid()), MoveSelf: true, Devices: true}
}

// manager makes groups, or skips the test. It removes everything at the end.
func manager(t *testing.T, needs ...Feature) *Manager {
	t.Helper()
	testenv.Require(t, testenv.Cgroup)
	m, err := Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := m.Sweep(patience, func(string) bool { return true }); err != nil {
			t.Error(err)
		}
		m.Close()
		for _, h := range m.System().Hierarchies {
			if _, err := os.Stat(filepath.Join(h.Parent, m.config.Name)); h.Parent != "" && err == nil {
				t.Errorf("%s in %s is left over", m.config.Name, h.Parent)
			}
		}
	})
	for _, f := range needs {
		if err := m.System().Check(f); err != nil {
			t.Skip(err)
		}
	}
	return m
}

func create(t *testing.T, m *Manager, name string, l Limits) *Group {
	t.Helper()
	g, err := m.Create(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs a shell script in a group.
func run(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	var enter strings.Builder
	for _, dir := range g.Paths().Dirs {
		file := group.Tasks
		if dir == g.Paths().Unified {
			file = group.Procs
		}
		enter.WriteString("echo 0 > " + dir + "/" + file + " || exit 99\n")
	}
	return exec.Command("/bin/sh", "-c", enter.String()+script)
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestDetectLeavesNothing(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	state := func() string {
		var b strings.Builder
		s, err := Detect(Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range s.Hierarchies {
			if h.Parent == "" {
				continue
			}
			entries, err := os.ReadDir(h.Parent)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), probePrefix) && strings.HasSuffix(e.Name(), itoa(os.Getpid())) {
					t.Errorf("%s in %s is left over", e.Name(), h.Parent)
				}
			}
			control := readFields(filepath.Join(h.Parent, subtreeControl))
			slices.Sort(control)
			fmt.Fprintln(&b, h.Parent, control)
		}
		return b.String()
	}
	if first, second := state(), state(); first != second {
		t.Errorf("%s\nhas become\n%s", first, second)
	}
}

func TestDetectAgreesWithOpen(t *testing.T) {
	m := manager(t)
	// Close follows each Open, so that no controller stays enabled for the next one.
	s, err := Detect(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Attr("version", string(s.Version))
	for f := range NumFeatures {
		detected, opened := s.Check(f), m.System().Check(f)
		if (detected == nil) != (opened == nil) {
			t.Errorf("to %s: Detect says %v, Open %v", f, detected, opened)
		}
		var e *group.NotSupportedError
		if detected != nil && (!errors.As(detected, &e) || e.Needs == "" || e.What == "") {
			t.Errorf("no remedy: %v", detected)
		}
	}
}

func TestNoCgroups(t *testing.T) {
	proc := t.TempDir()
	if err := os.Mkdir(proc+"/self", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mountinfo", "cgroup"} {
		if err := os.WriteFile(proc+"/self/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Open(Config{Proc: proc})
	if err != nil {
		t.Fatal(err)
	}
	if v := m.System().Version; v != None {
		t.Errorf("Version = %s", v)
	}
	for f := range NumFeatures {
		if err := m.System().Check(f); !errors.Is(err, errNotMounted) {
			t.Errorf("to %s: %v", f, err)
		}
	}
	var e *group.NotSupportedError
	if _, err := m.Create("1.1", Limits{}); !errors.As(err, &e) {
		t.Errorf("Create: %v", err)
	}
	if names, err := m.Names(); len(names) > 0 || err != nil {
		t.Errorf("Names = %v, %v", names, err)
	}
}

func TestLimitsReachTheKernel(t *testing.T) {
	const mb = 1 << 20
	tests := map[string]struct {
		limits Limits
		needs  []Feature
		where  Feature
		v2, v1 map[string]string // file and content
	}{
		"h_vmem": {
			Limits{Vmem: 64 * mb},
			[]Feature{MemoryLimit, SwapLimit},
			MemoryLimit,
			map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1"},
			map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864"},
		},
		"h_rss": {
			Limits{RSS: 64 * mb},
			[]Feature{MemoryLimit},
			MemoryLimit,
			map[string]string{"memory.max": "67108864"},
			map[string]string{"memory.limit_in_bytes": "67108864"},
		},
		"h_rss below h_vmem": {
			Limits{RSS: 64 * mb, Vmem: 80 * mb},
			[]Feature{MemoryLimit, SwapLimit},
			MemoryLimit,
			map[string]string{"memory.max": "67108864", "memory.swap.max": "16777216"},
			map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "83886080"},
		},
		"h_rss above h_vmem": {
			Limits{RSS: 80 * mb, Vmem: 64 * mb},
			[]Feature{MemoryLimit, SwapLimit},
			MemoryLimit,
			map[string]string{"memory.max": "67108864", "memory.swap.max": "0"},
			map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864"},
		},
		"a limit beyond all memory": {
			Limits{Vmem: 1 << 63},
			[]Feature{MemoryLimit},
			MemoryLimit,
			map[string]string{"memory.max": "max"},
			map[string]string{"memory.limit_in_bytes": "9223372036854771712"},
		},
		"CPU weight": {
			Limits{CPUWeight: 50},
			[]Feature{CPUWeight},
			CPUWeight,
			map[string]string{"cpu.weight": "50"},
			map[string]string{"cpu.shares": "512"},
		},
		"processes": {
			Limits{Pids: 77},
			[]Feature{PidsLimit},
			PidsLimit,
			map[string]string{"pids.max": "77"},
			map[string]string{"pids.max": "77"},
		},
		"CPUs and memory nodes": {
			Limits{CPUs: "0", Mems: "0"},
			[]Feature{Cpuset},
			Cpuset,
			map[string]string{"cpuset.cpus": "0", "cpuset.mems": "0"},
			map[string]string{"cpuset.cpus": "0", "cpuset.mems": "0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := manager(t, test.needs...)
			g := create(t, m, "1.1", test.limits)
			want := test.v1
			if m.System().Where(test.where).Unified {
				want = test.v2
			}
			for file, value := range want {
				if file == "memory.oom.group" && m.System().Check(OOMGroup) != nil {
					continue
				}
				if got := content(t, filepath.Join(g.in(test.where), file)); got != value {
					t.Errorf("%s is %q, want %q", file, got, value)
				}
			}
			if len(g.Unmet()) > 0 {
				t.Errorf("Unmet = %v", g.Unmet())
			}
		})
	}
}

func TestCpusetBinds(t *testing.T) {
	m := manager(t, Cpuset)
	g := create(t, m, "1.1", Limits{CPUs: "0", Mems: "0"})
	out, err := run(t, g, "exec grep Cpus_allowed_list /proc/self/status").Output()
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != "Cpus_allowed_list: 0" {
		t.Errorf("the job sees %q, %v", out, err)
	}
}

func TestRefusedValueLeavesNoGroup(t *testing.T) {
	m := manager(t, Cpuset)
	if g, err := m.Create("1.1", Limits{CPUs: "99999"}); err == nil {
		t.Errorf("Create = %+v", g.Paths())
	}
	if names, err := m.Names(); len(names) > 0 || err != nil {
		t.Errorf("Names = %v, %v", names, err)
	}
}

func TestDeniedDevice(t *testing.T) {
	m := manager(t, Devices)
	testenv.Require(t, testenv.Root)
	const script = "exec 3</dev/zero || exit 2; exec 4</dev/full || exit 3; exit 0"
	free := create(t, m, "1.1", Limits{})
	if out, err := run(t, free, script).CombinedOutput(); err != nil {
		t.Errorf("a job without rules: %v, %s", err, out)
	}
	bound := create(t, m, "2.1", Limits{Deny: []Device{{Major: 1, Minor: 7}}}) // mem(4), full(4)
	out, err := run(t, bound, script).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "full") || !strings.Contains(string(out), "not permitted") {
		t.Errorf("a job that may not open /dev/full: %v, %s", err, out)
	}
	// A running job is kept from more: what it could not open before stays so.
	if err := Deny(bound.Paths(), []Device{{Major: 1, Minor: 5}, {Major: 1, Minor: 3}}); err != nil { // zero(4), null(4)
		t.Fatal(err)
	}
	out, _ = run(t, bound, "for d in zero full null urandom; do (exec 3</dev/$d) 2>&1 | grep -q 'not permitted' && echo no $d; done; exit 0").CombinedOutput()
	if got := strings.Join(strings.Fields(string(out)), " "); got != "no zero no full no null" {
		t.Errorf("after two more devices: %s", got)
	}
	if err := Deny(bound.Paths(), nil); err != nil {
		t.Errorf("no more devices: %v", err)
	}
	later := create(t, m, "3.1", Limits{Filter: true})
	if out, err := run(t, later, script).CombinedOutput(); err != nil {
		t.Errorf("a job without denied devices: %v, %s", err, out)
	}
	if err := Deny(later.Paths(), []Device{{Major: 1, Minor: 7}}); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, later, script).CombinedOutput(); err == nil || !strings.Contains(string(out), "full") {
		t.Errorf("the same job after a device was denied: %v, %s", err, out)
	}
}

// TestManyDeniedDevices keeps a job from as many devices as a host with 16 GPUs of seven MIG instances each has.
func TestManyDeniedDevices(t *testing.T) {
	m := manager(t, Devices)
	testenv.Require(t, testenv.Root)
	var devices []Device
	for minor := range int64(16 * (1 + 2*7)) {
		devices = append(devices, Device{Major: 236, Minor: minor})
	}
	g := create(t, m, "1.1", Limits{Deny: append(devices, Device{Major: 1, Minor: 7})}) // mem(4), full(4)
	out, _ := run(t, g, "for d in zero full null; do (exec 3</dev/$d) 2>&1 | grep -q 'not permitted' && echo no $d; done; exit 0").CombinedOutput()
	if got := strings.Join(strings.Fields(string(out)), " "); got != "no full" {
		t.Errorf("the job cannot open: %s", got)
	}
}

func TestUsage(t *testing.T) {
	m := manager(t, CPUTime, MemoryLimit)
	g := create(t, m, "1.1", Limits{Vmem: 1 << 30, Pids: 100})
	if out, err := run(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls /proc > /dev/null").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.CPU <= 0 || u.CPU > patience || u.User+u.System > 2*u.CPU+20*time.Millisecond {
		t.Errorf("CPU = %v, User = %v, System = %v", u.CPU, u.User, u.System)
	}
	if m.System().Check(MemoryPeak) == nil && (u.MemoryPeak < 4096 || u.MemoryPeak > 1<<30) {
		t.Errorf("MemoryPeak = %d", u.MemoryPeak)
	}
	if u.OOMKills > 0 {
		t.Errorf("OOMKills = %d", u.OOMKills)
	}
	if err := g.Remove(patience); err != nil {
		t.Fatal(err)
	}
	if u, err := g.Usage(); err == nil {
		t.Errorf("the usage of a group that is gone: %+v", u)
	}
}

func TestCreateRefusesAnExistingGroup(t *testing.T) {
	m := manager(t)
	g := create(t, m, "1.1", Limits{})
	if _, err := m.Create("1.1", Limits{}); !errors.Is(err, ErrExists) {
		t.Errorf("Create = %v", err)
	}
	for _, dir := range g.Paths().Dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the refused one has removed the other: %v", err)
		}
	}
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	m := manager(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/a", "a\nb", ".probe-1", "a\x00"} {
		if _, err := m.Create(name, Limits{}); err == nil {
			t.Errorf("Create(%q) made a group", name)
		}
		if _, err := m.Load(name); err == nil {
			t.Errorf("Load(%q) found a group", name)
		}
	}
}

func TestName(t *testing.T) {
	for want, id := range map[string]job.ID{
		"7.1":        {Job: 7},
		"7.3":        {Job: 7, Task: 3},
		"7.1.1.host": {Job: 7, PETask: "1.host"},
	} {
		if got := Name(id); got != want {
			t.Errorf("Name(%+v) = %s, want %s", id, got, want)
		}
	}
}

func TestRemoveTakesProcessesAndNestedGroups(t *testing.T) {
	m := manager(t)
	g := create(t, m, "1.1", Limits{})
	for _, dir := range g.Paths().Dirs {
		if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := run(t, g, "sleep 1000 & echo ready; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(patience); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Paths().Dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := g.Remove(patience); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestRemoveEmpty checks the quick way: it removes all directories of a group, and touches none while the group has
// processes.
func TestRemoveEmpty(t *testing.T) {
	for name, l := range map[string]Limits{"without limits": {}, "limited processes": {Pids: 50}, "limited memory": {RSS: 1 << 30, Pids: 50}} {
		t.Run(name, func(t *testing.T) {
			m := manager(t)
			g := create(t, m, "1.1", l)
			p := g.Paths()
			left := func() (n int) {
				for _, dir := range p.Dirs {
					if _, err := os.Stat(dir); err == nil {
						n++
					}
				}
				return n
			}
			cmd := run(t, g, "echo ready; read end")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			for _, dir := range p.Dirs {
				if p.Unified == "" || dir == p.Unified {
					continue
				}
				// It has left all groups but that of v2, which has to stay with the others.
				if err := os.WriteFile(filepath.Join(filepath.Dir(dir), group.Procs), fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
					t.Fatal(err)
				}
			}
			if removed := RemoveEmpty(p); removed || left() != len(p.Dirs) {
				t.Errorf("with a process: removed %v, %d of %d directories are left", removed, left(), len(p.Dirs))
			}
			in.Close()
			_ = cmd.Wait()
			quick := len(p.Dirs) == 1 || p.Unified != ""
			if removed := RemoveEmpty(p); removed != quick || quick && left() > 0 {
				t.Errorf("removed %v, want %v; %d directories are left", removed, quick, left())
			}
		})
	}
}

func TestSweepTakesOrphansOnly(t *testing.T) {
	m := manager(t)
	create(t, m, "1.1", Limits{})
	create(t, m, "2.1", Limits{})
	kept := create(t, m, "3.1", Limits{})
	cmd := run(t, kept, "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}

	// A second Manager stands for another process after a restart.
	again, err := Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	removed, err := again.Sweep(patience, func(name string) bool { return name != "3.1" })
	if err != nil || !slices.Equal(removed, []string{"1.1", "2.1"}) {
		t.Errorf("Sweep = %v, %v", removed, err)
	}
	if names, err := again.Names(); err != nil || !slices.Equal(names, []string{"3.1"}) {
		t.Errorf("Names = %v, %v", names, err)
	}
	again.Close() // must not affect the remaining Manager
	g, err := m.Load("3.1")
	if err != nil {
		t.Fatal(err)
	}
	open, err := group.Open(g.Paths())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if empty, err := open.Empty(); empty || err != nil {
		t.Errorf("Empty = %v, %v", empty, err)
	}
}

func TestManagersMayShareAName(t *testing.T) {
	m := manager(t)
	other, err := Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	other.Close() // also removes the groups that m has made
	create(t, m, "1.1", Limits{Vmem: 1 << 30})
	other.Close()
	if names, err := m.Names(); err != nil || !slices.Equal(names, []string{"1.1"}) {
		t.Errorf("Names = %v, %v", names, err)
	}
}

func TestWithin(t *testing.T) {
	m := manager(t)
	var within string
	for i, h := range m.System().Hierarchies {
		if h.Parent != "" {
			within = filepath.Dir(m.group("x").relative(i))
		}
	}
	inner, err := Open(Config{Name: "inner", Within: within})
	if err != nil {
		t.Fatal(err)
	}
	g, err := inner.Create("1.1", Limits{Vmem: 1 << 30, CPUs: "0", Pids: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Paths().Dirs {
		if !strings.HasSuffix(dir, within+"/inner/1.1") {
			t.Errorf("%s is not in %s", dir, within)
		}
	}
	if out, err := run(t, g, "true").CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	if err := g.Remove(patience); err != nil {
		t.Error(err)
	}
	inner.Close()
}

// delegatedEnv is the variable that makes the test executable run as an unprivileged user's execd.
const delegatedEnv = "EXECD_CGROUP_DELEGATED"

func TestMain(m *testing.M) {
	if os.Getenv(delegatedEnv) != "" {
		if err := beDelegated(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func beDelegated() error {
	m, err := Open(testConfig())
	if err != nil {
		return err
	}
	for _, h := range m.System().Hierarchies {
		fmt.Printf("%s: %q %v %v\n", h.Mount, h.Parent, h.Controllers, h.Err)
	}
	defer m.Close()
	g, err := m.Create("1.1", Limits{Vmem: 1 << 30, Pids: 50})
	if err != nil {
		return err
	}
	fmt.Printf("unmet: %v\n", g.Unmet())
	cmd := exec.Command("/bin/sleep", "1000")
	fd, err := unix.Open(g.Paths().Unified, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := g.Remove(patience); err != nil {
		return err
	}
	if err := cmd.Wait(); err == nil {
		return errors.New("the job has not been killed")
	}
	fmt.Println("done")
	return nil
}

// unified returns the v2 hierarchy if groups can be created in it.
func unified(s *System) *Hierarchy {
	for i, h := range s.Hierarchies {
		if h.Unified && h.Parent != "" {
			return &s.Hierarchies[i]
		}
	}
	return nil
}

func TestDelegatedSubtree(t *testing.T) {
	testenv.Require(t, testenv.Cgroup, testenv.Root)
	m := manager(t, Kill)
	h := unified(m.System())
	if h == nil {
		t.Skip("no v2 hierarchy")
	}
	const nobody = 65534
	dir := filepath.Join(h.Parent, m.config.Name, "delegated")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", subtreeControl} {
		if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{delegatedEnv + "=1"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: fd,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%s: %q ", h.Mount, dir)) {
		t.Errorf("it has not used %s", dir)
	}
	unmet := "unmet: []"
	if m.System().Version != V2 {
		unmet = "permission denied" // the v1 hierarchies belong to root
	}
	if !strings.Contains(string(out), unmet) {
		t.Errorf("its output lacks %q", unmet)
	}
}
