package ptf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
)

// What the test binary does when it is started with one of these.
const (
	threadsEnv = "PTF_TEST_THREADS"
	reniceEnv  = "PTF_TEST_RENICE"
)

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(threadsEnv)); err == nil {
		threads(n)
		return
	}
	if pid, err := strconv.Atoi(os.Getenv(reniceEnv)); err == nil {
		fmt.Println(renice([]int{pid}, 0))
		return
	}
	os.Exit(m.Run())
}

// threads starts n threads and waits until standard input ends.
func threads(n int) {
	started := make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- true
			select {}
		}()
	}
	for range n {
		<-started
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

// begin starts such a process.
func begin(t *testing.T, attr *syscall.SysProcAttr, enter func(pid int)) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), threadsEnv+"=4")
	cmd.SysProcAttr = attr
	if ready, _ := testenv.Begin(t, cmd); ready != "ready\n" {
		t.Fatalf("%q", ready)
	}
	if enter != nil {
		enter(cmd.Process.Pid)
	}
	return cmd.Process.Pid
}

// nices are the nice values of the threads of a process.
func nices(t *testing.T, pid int) (list []int) {
	t.Helper()
	for _, tid := range numbers(fmt.Sprintf("/proc/%d/task", pid)) {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, 20-n)
	}
	if len(list) < 5 {
		t.Fatalf("there are only %d threads", len(list))
	}
	return list
}

// ownNice returns the nice value of this process, with which those begin that it starts: make may
// run under nice(1).
func ownNice(t *testing.T) int {
	t.Helper()
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - n
}

func allAre(list []int, n int) bool {
	for _, x := range list {
		if x != n {
			return false
		}
	}
	return true
}

// TestNiceByGroupID finds processes by their additional group id, and leaves others alone.
func TestNiceByGroupID(t *testing.T) {
	testenv.Require(t, testenv.Root)
	withGroup := func(gid uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{100, gid}}}
	}
	const one, two, three = 654321, 654322, 654323
	pids := []int{begin(t, withGroup(one), nil), begin(t, withGroup(one), nil), begin(t, withGroup(two), nil), begin(t, withGroup(three), nil)}
	targets := []Target{{GroupID: one}, {}, {GroupID: two}}
	own := ownNice(t)
	for _, nice := range []int{7, -3, 19, 0} {
		results := Apply(targets, []Priority{{Nice: nice}, {Nice: 12}, {Nice: 5}})
		for i, want := range []int{nice, nice, 5, own} {
			if got := nices(t, pids[i]); !allAre(got, want) {
				t.Errorf("the threads of process %d have the nice values %v, want %d", i, got, want)
			}
		}
		for i, want := range []Result{{Processes: 2}, {}, {Processes: 1}} {
			if results[i] != want {
				t.Errorf("result %d is %+v, want %+v", i, results[i], want)
			}
		}
	}
}

// TestNiceWithoutPermission says what could not be done.
func TestNiceWithoutPermission(t *testing.T) {
	testenv.Require(t, testenv.Root)
	pid := begin(t, nil, nil)
	if done, err := renice([]int{pid, 1 << 30}, 3); done != 1 || err != nil {
		t.Fatalf("%d, %v", done, err)
	}
	// A thread that was being created at that time may have the value from before.
	for !allAre(nices(t, pid), 3) {
		if _, err := renice([]int{pid}, 3); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody who is not root may not take it back.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), reniceEnv+"="+strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("0 cannot give process %d the nice value 0: ", pid); err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
	if got := nices(t, pid); !allAre(got, 3) {
		t.Errorf("the nice values are %v", got)
	}
}

// TestWeightsOfGroups gives a group that weighs processors a weight, and the processes of
// one that does not a nice value.
func TestWeightsOfGroups(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup)
	m, err := cgroup.Open(cgroup.Config{Name: fmt.Sprintf("execd-ptf-%d", os.Getpid()), MoveSelf: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := m.Sweep(time.Minute, func(string) bool { return true }); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	create := func(name string, l cgroup.Limits) *group.Paths {
		g, err := m.Create(name, l)
		if err != nil {
			t.Fatal(err)
		}
		return g.Paths()
	}
	enter := func(p *group.Paths) func(pid int) {
		return func(pid int) {
			for _, dir := range p.Dirs {
				if err := os.WriteFile(filepath.Join(dir, group.Procs), []byte(strconv.Itoa(pid)), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	weighed, bare := create("1.1", cgroup.Limits{CPUWeight: 100}), create("2.1", cgroup.Limits{Counted: true})
	first, second := begin(t, nil, enter(weighed)), begin(t, nil, enter(bare))
	results := Apply([]Target{{Group: weighed}, {Group: bare}}, []Priority{{Nice: 4, Weight: 300}, {Nice: 6, Weight: 50}})
	can := m.System().Check(cgroup.CPUWeight) == nil
	for i, pid := range []int{first, second} {
		p := []*group.Paths{weighed, bare}[i]
		nice := []int{4, 6}[i]
		weight := weightOf(p)
		if results[i].Err != nil || results[i].Weighted != (weight != "") || i == 0 && results[i].Weighted != can {
			t.Errorf("job %d: %+v, with the weight %q", i+1, results[i], weight)
		}
		switch got := nices(t, pid); {
		case results[i].Weighted && !allAre(got, ownNice(t)), !results[i].Weighted && (!allAre(got, nice) || results[i].Processes != 1):
			t.Errorf("job %d: %+v, its threads have the nice values %v", i+1, results[i], got)
		}
		if want := []string{"300 3072", "50 512"}[i]; weight != "" && !strings.Contains(" "+want+" ", " "+weight+" ") {
			t.Errorf("job %d has the weight %s, want one of %s", i+1, weight, want)
		}
	}
	results = Apply([]Target{{Group: weighed}, {Group: &group.Paths{Dirs: []string{"/nonexistent"}}}}, []Priority{{Weight: 0}, {Weight: 5}})
	if can && results[0].Err == nil || results[1] != (Result{}) {
		t.Errorf("got %+v", results)
	}
}

// weightOf returns the weight that the kernel has for a group, empty where it has none.
func weightOf(p *group.Paths) string {
	for _, dir := range p.Dirs {
		for _, name := range []string{"cpu.weight", "cpu.shares"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}
