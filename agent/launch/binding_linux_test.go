package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// orderForCores returns an order of a job with these options, in a queue with these
// processors. Its files go below dir.
func orderForCores(dir, processors string, options ...string) (*Assignment, error) {
	r, err := submit.Parse(submit.Input{
		Args: append(options, "-b", "y", "/bin/true"), Cwd: dir,
		ReadFile: os.ReadFile,
	})
	if err != nil {
		return nil, err
	}
	queue, err := qconf.ParseQueue("q", []byte("qname q\nhostlist host\nslots 100\npe_list smp\ntmpdir "+dir+"\nshell /bin/sh\nprocessors "+processors+"\n"))
	if err != nil {
		return nil, err
	}
	instance, err := queue.Instance("host", nil)
	if err != nil {
		return nil, err
	}
	owner := &userdb.User{Name: "owner", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Home: dir, Shell: "/bin/sh"}
	if owner.UID == 0 {
		owner.UID, owner.GID = 20001, 20001
	}
	return &Assignment{
		Request: r, Owner: owner, Host: "host", Queue: instance, Config: qconf.Builtin(1).Config("host"), Slots: 1,
		Submitted: time.Now(), Terminal: true,
		Lookup: func(string) (*userdb.User, error) { return owner, nil },
	}, nil
}

// prepareOnRequest prepares a job for each line with a number, says to which
// processors it is bound, and removes it at the next line.
func prepareOnRequest(path string) error {
	spool, err := jobdir.OpenSpool(path)
	if err != nil {
		return err
	}
	o, err := orderForCores(filepath.Dir(path), "UNDEFINED", "-binding", "linear:1")
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var id job.ID
		if _, err := fmt.Sscan(in.Text(), &id.Job); err != nil {
			return err
		}
		j, err := Prepare(spool, o, id)
		if err != nil {
			return err
		}
		fmt.Printf("%s;%s\n", j.Affinity.CPUs, j.Unbound)
		if !in.Scan() {
			return nil
		}
		if err := j.Remove(false); err != nil {
			return err
		}
		fmt.Println("removed")
	}
	return in.Err()
}

// chooser is one of the other processes.
type chooser struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChooser(t *testing.T, spool string) *chooser {
	t.Helper()
	c := &chooser{t: t, cmd: exec.CommandContext(t.Context(), "/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), "LAUNCH_TEST_SPOOL="+spool)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	out, errOut := c.cmd.StdoutPipe()
	if err != nil || errOut != nil {
		t.Fatal(err, errOut)
	}
	c.in, c.out = in, bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.in.Close()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *chooser) tell(text string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chooser) hear() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatal("a process that chooses cores has ended", c.out.Err())
	}
	return c.out.Text()
}

// TestConcurrentProcessesGetDistinctCores makes many processes choose cores at the same time. No
// core is given to two jobs, no requested core stays free, and freed cores are given out again,
// also after processes that were killed.
func TestConcurrentProcessesGetDistinctCores(t *testing.T) {
	const processes = 8
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	top, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var all []*chooser
	for range processes {
		all = append(all, startChooser(t, dir+"/spool"))
	}
	spool, err := jobdir.OpenSpool(dir + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	number := 0
	for round := range rounds {
		for _, c := range all {
			number++
			c.tell(fmt.Sprint(number))
		}
		var used topology.CPUSet
		got := 0
		for _, c := range all {
			text, why, _ := strings.Cut(c.hear(), ";")
			cpus, err := topology.ParseList(text)
			if err != nil {
				t.Fatal(err)
			}
			if both := cpus.Intersect(used); !both.IsEmpty() {
				t.Fatalf("round %d: processors %s are given twice", round, both)
			}
			switch {
			case !cpus.IsEmpty() && why == "":
				got++
			case cpus.IsEmpty() && strings.Contains(why, "too few cores are free: 1 of 0 free"):
			default:
				t.Fatalf("round %d: got processors %q, %q", round, text, why)
			}
			used = used.Union(cpus)
		}
		if want := min(processes, top.NumCores()); got != want {
			t.Fatalf("round %d: %d of %d cores are given to %d jobs", round, got, top.NumCores(), processes)
		}
		shape, err := topologyInUse(spool, top)
		if sh, _ := topology.ParseShape(shape); err != nil || len(sh.InUse()) != got || !sh.SameHost(top.Shape()) {
			t.Errorf("round %d: m_topology_inuse is %s with %d cores in use, %v", round, shape, got, err)
		}
		if round == rounds-2 {
			// The last round has what these leave behind.
			for i, c := range all {
				_ = c.cmd.Process.Kill()
				_ = c.cmd.Wait()
				all[i] = startChooser(t, dir+"/spool")
			}
			continue
		}
		for _, c := range all {
			c.tell("remove")
		}
		for _, c := range all {
			c.hear()
		}
	}
	if shape, err := topologyInUse(spool, top); err != nil || shape != top.Shape().String() {
		t.Errorf("behind all jobs m_topology_inuse is %s, %v", shape, err)
	}
}

// preparedWithCores returns a job in a spool area of its own, or in that of another.
func preparedWithCores(t *testing.T, spool *jobdir.Spool, number int, processors string, options ...string) *Job {
	t.Helper()
	o, err := orderForCores(filepath.Dir(spool.Path()), processors, options...)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Prepare(spool, o, job.ID{Job: number})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Remove(false) })
	return j
}

func newSpool(t *testing.T) *jobdir.Spool {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spool, err := jobdir.OpenSpool(dir + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	return spool
}

// TestProcessorsOfAQueue checks that jobs are restricted to the processors of their queue, and that
// jobs that request cores get some of these.
func TestProcessorsOfAQueue(t *testing.T) {
	top, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	core, _ := top.Core(topology.Pair{})
	first := core.CPUs.String()
	beyond := fmt.Sprint(top.Usable().Slice()[top.Usable().Len()-1] + 1)
	for sentence, c := range map[string]struct {
		processors string
		options    []string
		cpus       string // what the job is restricted to
		binding    bool   // to cores
		why        string
	}{
		"UNDEFINED restricts nothing":               {"UNDEFINED", nil, "", false, ""},
		"a range":                                   {first, nil, first, false, ""},
		"what the host lacks is left out":           {first + "," + beyond, nil, first, false, ""},
		"nothing that the host has":                 {beyond, nil, "", false, "cannot bind to the processors " + beyond + " of queue q: of this host only "},
		"cores are chosen among them":               {first, []string{"-binding", "linear:1"}, first, true, ""},
		"a core of another queue":                   {beyond, []string{"-binding", "explicit:0,0"}, "", false, "a core is not among the processors of the queue: 0,0"},
		"more cores than the queue has":             {first, []string{"-binding", "linear:2"}, first, false, "among the processors " + first + " of the queue"},
		"a job that binds itself stays in them":     {first, []string{"-binding", "env", "linear:1"}, first, true, ""},
		"a job that binds itself, in another queue": {"UNDEFINED", []string{"-binding", "env", "linear:1"}, "", true, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if sentence == "more cores than the queue has" && top.NumCores() < 2 {
				t.Skip("the machine has one core")
			}
			j := preparedWithCores(t, newSpool(t), 1, c.processors, c.options...)
			if got := j.Affinity.CPUs.String(); got != c.cpus || (len(j.Binding.Cores) > 0) != c.binding {
				t.Errorf("restricted to %q, cores %v", got, j.Binding.Cores)
			}
			if (j.Unbound == "") != (c.why == "") || !strings.Contains(j.Unbound, c.why) {
				t.Errorf("it says %q", j.Unbound)
			}
			d, err := j.Dir.Description()
			if err != nil || d.BindingCPUs != j.Binding.CPUs.String() || d.Binding == "" && c.binding {
				t.Errorf("binding %q, processors %q, %v", d.Binding, d.BindingCPUs, err)
			}
		})
	}
}

// TestDamagedDirectoryIsNoFreeCore checks that a core counts as used if a damaged directory may be
// that of a job that uses it.
func TestDamagedDirectoryIsNoFreeCore(t *testing.T) {
	if _, err := readTopology(); err != nil {
		t.Fatal(err)
	}
	spool := newSpool(t)
	other := preparedWithCores(t, spool, 1, "UNDEFINED", "-binding", "linear:1")
	if err := other.Dir.WriteFile(jobdir.FileConfig, []byte("nothing\n")); err != nil {
		t.Fatal(err)
	}
	j := preparedWithCores(t, spool, 2, "UNDEFINED", "-binding", "linear:1")
	if !strings.HasPrefix(j.Unbound, "cannot determine which cores are in use: job 1.1: ") || j.Binding.Binds() {
		t.Errorf("bound to %s, says %q", j.Binding.CPUs, j.Unbound)
	}
}

// TestCoresOfOtherHosts checks that cores of jobs on other hosts do not count as used on this host:
// hosts may share a home directory and the spool directory in it.
func TestCoresOfOtherHosts(t *testing.T) {
	top, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	spool := newSpool(t)
	preparedWithCores(t, spool, 1, "UNDEFINED", "-binding", "explicit:0,0")
	used, _, err := coresInUse(spool, "other", top, nil)
	if err != nil || len(used) != 0 {
		t.Errorf("on another host %v are in use, %v", used, err)
	}
	used, _, err = coresInUse(spool, "HOST", top, nil)
	if err != nil || len(used) != 1 {
		t.Errorf("on this host %v are in use, %v", used, err)
	}
	known := map[string]string{spool.JobPath(job.ID{Job: 1, Task: 1}): ""}
	if used, _, err = coresInUse(spool, "host", top, known); err != nil || len(used) != 0 {
		t.Errorf("of a job that is known to have none %v are in use, %v", used, err)
	}
}

// TestCoresAreProcessors checks that cores are compared by their processors: for a user who may use
// only a part of the host, the same cores have other numbers.
func TestCoresAreProcessors(t *testing.T) {
	top, err := readTopology()
	if err != nil || top.NumCores() < 2 {
		t.Skip("needs two cores")
	}
	spool := newSpool(t)
	last := top.Pairs()[top.NumCores()-1]
	j := preparedWithCores(t, spool, 1, "UNDEFINED", "-binding", "explicit:"+last.String())
	core, _ := top.Core(last)
	defer restrict(t, core.CPUs)()
	less, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	used, _, err := coresInUse(spool, "host", less, nil)
	if err != nil || !used.Has(topology.Pair{}) || less.NumCores() != 1 {
		t.Errorf("%s is bound to core %s; of a host with %s alone %v are in use, %v", j.Binding.CPUs, last, core.CPUs, used, err)
	}
}

// restrict restricts this thread to processors, until undo is called.
func restrict(t *testing.T, cpus topology.CPUSet) (undo func()) {
	t.Helper()
	runtime.LockOSThread()
	before, err := limits.Affinity()
	if err == nil {
		err = limits.SetAffinity(cpus)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := limits.SetAffinity(before); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	}
}

// topologyInUse returns the load value m_topology_inuse, read from the directories of all jobs.
func topologyInUse(spool *jobdir.Spool, top topology.Topology) (string, error) {
	used, _, err := coresInUse(spool, "host", top, nil)
	return binding.TopologyInUse(top, used), err
}
