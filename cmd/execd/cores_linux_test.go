package main_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/topology"
)

// cores is a machine on which it can be told to which cores a job is bound: it has
// two sockets or more, each with as many cores.
type cores struct {
	*world
	top topology.Topology
}

// granted holds the processors that a job reports as usable.
type granted struct {
	cpus, mems, variable string
	cpuset               bool // it is in a group of its own with a cpuset
}

const sayGranted = `#!/bin/sh
while read name value; do
	case $name in
	Cpus_allowed_list:) cpus=$value ;;
	Mems_allowed_list:) mems=$value ;;
	esac
done </proc/self/status
echo "cpus=$cpus mems=$mems variable=<$SGE_BINDING> hostfile=<$(test -z "$PE_HOSTFILE" || cat "$PE_HOSTFILE")>"
while IFS=: read number names path; do
	case $names,$path in
	*cpuset*,*/execd-*|,*/execd-*) echo "group $path" ;;
	esac
done </proc/self/cgroup
echo ready
`

func onCores(t *testing.T, m mode) *cores {
	t.Helper()
	cpus, err := limits.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.Read(os.ReadFile, topology.Allowed{CPUs: cpus})
	if err != nil {
		t.Fatal(err)
	}
	if top.NumSockets() < 2 || len(top.Sockets[0].Cores) < 2 || len(top.Sockets[1].Cores) < 2 {
		t.Skipf("needs two sockets with two cores each; this machine is %s", top.Shape())
	}
	// A guest of test/vm may have nothing but the programs that run in it.
	if os.Getenv("EXECD_VM") != "" {
		if err := os.MkdirAll("/var/spool", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := &cores{inWorld(t, m), top}
	c.write(t, "job.sh", sayGranted)
	// Until the test ends it.
	c.write(t, "stay.sh", sayGranted+"exec sleep 1000\n")
	return c
}

// args are the arguments of execd run.
func (c *cores) args(args ...string) []string {
	if c.mode == asRoot {
		args = append([]string{"--as", c.user}, args...)
	}
	return args
}

var grantedLine = regexp.MustCompile(`(?m)^cpus=(\S+) mems=(\S+) variable=<(.*)> hostfile=<(?s:(.*?))>$`)

func parseGranted(t *testing.T, text string) granted {
	t.Helper()
	m := grantedLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the job says %q", text)
	}
	return granted{m[1], m[2], m[3], strings.Contains(text, "\ngroup ")}
}

// check compares what a job may use with cores; all is for no restriction.
func (c *cores) check(t *testing.T, g granted, cpus topology.CPUSet, restricted bool, variable topology.CPUSet) {
	t.Helper()
	want := c.top.Usable()
	if restricted {
		want = cpus
	}
	if g.cpus != want.String() {
		t.Errorf("the job may use processors %s, want %s", g.cpus, want)
	}
	if g.variable != variable.Fields() {
		t.Errorf("SGE_BINDING is %q, want %q", g.variable, variable.Fields())
	}
	// Memory is for a cpuset alone.
	mems := c.top.MemsOf(want)
	if g.cpuset && !mems.IsEmpty() && g.mems != mems.String() {
		t.Errorf("the job is in a cpuset with memory %s, want %s", g.mems, mems)
	}
}

// TestCoresOfAJob goes through the forms of -binding (sge_submit(1)).
func TestCoresOfAJob(t *testing.T) {
	for name, m := range map[string]mode{"user": asUser, "root": asRoot} {
		t.Run(name, func(t *testing.T) {
			c := onCores(t, m)
			pair := func(s, core int) topology.Pair { return topology.Pair{Socket: s, Core: core} }
			perSocket := len(c.top.Sockets[0].Cores)
			for sentence, test := range map[string]struct {
				args  []string
				cores []topology.Pair
				set   bool
			}{
				"linear":                {[]string{"-binding", "linear:2"}, []topology.Pair{pair(0, 0), pair(0, 1)}, true},
				"linear with a start":   {[]string{"-binding", "linear:1:1,0"}, []topology.Pair{pair(1, 0)}, true},
				"linear over sockets":   {[]string{"-binding", fmt.Sprintf("linear:2:0,%d", perSocket-1)}, []topology.Pair{pair(0, perSocket-1), pair(1, 0)}, true},
				"linear:slots":          {[]string{"-pe", "smp", "2", "-binding", "linear:slots"}, []topology.Pair{pair(0, 0), pair(0, 1)}, true},
				"striding":              {[]string{"-binding", "striding:2:" + strconv.Itoa(perSocket)}, []topology.Pair{pair(0, 0), pair(1, 0)}, true},
				"striding with a start": {[]string{"-binding", "striding:2:" + strconv.Itoa(perSocket) + ":0,1"}, []topology.Pair{pair(0, 1), pair(1, 1)}, true},
				"explicit":              {[]string{"-binding", "explicit:1,1:0,0"}, []topology.Pair{pair(0, 0), pair(1, 1)}, true},
				"env":                   {[]string{"-binding", "env", "linear:1"}, []topology.Pair{pair(0, 0)}, false},
				"pe":                    {[]string{"-pe", "smp", "2", "-binding", "pe", "linear:slots"}, []topology.Pair{pair(0, 0), pair(0, 1)}, false},
				"nothing":               {nil, nil, false},
			} {
				t.Run(sentence, func(t *testing.T) {
					r := c.run(t, c.args(append(test.args, "job.sh")...)...)
					if r.status != 0 || strings.Contains(r.stderr, "runs unbound") {
						t.Fatalf("exit status %d, %s", r.status, r.stderr)
					}
					cpus := c.top.CPUs(test.cores)
					c.check(t, parseGranted(t, r.stdout), cpus, test.set, cpus)
					if hostfile := grantedLine.FindStringSubmatch(r.stdout)[4]; sentence == "pe" && !strings.HasSuffix(hostfile, " 0,0:0,1") {
						t.Errorf("pe_hostfile is %q", hostfile)
					}
				})
			}
		})
	}
}

// TestProcessorsOfAQueueOnTwoSockets checks that the processors of a queue are those of the second
// socket.
func TestProcessorsOfAQueueOnTwoSockets(t *testing.T) {
	c := onCores(t, asRoot)
	second := c.top.CPUs([]topology.Pair{{Socket: 1, Core: 0}, {Socket: 1, Core: 1}})
	c.write(t, "conf/queues/q", "qname q\nslots 8\nshell /bin/sh\nshell_start_mode unix_behavior\nprocessors "+second.String()+"\n")
	for options, want := range map[string]struct {
		cpus, variable topology.CPUSet
		unbound        string
	}{
		"":                      {cpus: second},
		"-binding linear:1":     {cpus: c.top.CPUs([]topology.Pair{{Socket: 1, Core: 0}}), variable: c.top.CPUs([]topology.Pair{{Socket: 1, Core: 0}})},
		"-binding env linear:1": {cpus: second, variable: c.top.CPUs([]topology.Pair{{Socket: 1, Core: 0}})},
		"-binding explicit:0,0": {cpus: second, unbound: "a core is not among the processors of the queue: 0,0"},
	} {
		t.Run("options "+options, func(t *testing.T) {
			r := c.run(t, c.args(append(append([]string{"--conf", "conf"}, strings.Fields(options)...), "job.sh")...)...)
			if r.status != 0 || strings.Contains(r.stderr, "runs unbound") != (want.unbound != "") || !strings.Contains(r.stderr, want.unbound) {
				t.Fatalf("exit status %d, %s", r.status, r.stderr)
			}
			c.check(t, parseGranted(t, r.stdout), want.cpus, true, want.variable)
		})
	}
}

// TestConcurrentJobsGetDifferentCores checks that concurrent jobs get different cores: first on
// sockets without a job, then the remaining ones, then none. The cores of a finished job are given
// out again.
func TestConcurrentJobsGetDifferentCores(t *testing.T) {
	c := onCores(t, asRoot)
	var jobs []*live
	var used topology.CPUSet
	start := func(options ...string) (l *live, cpus topology.CPUSet, text string) {
		t.Helper()
		l = c.start(t, c.args(append(options, "stay.sh")...)...)
		l.expect("^ready$")
		cpus, err := topology.ParseList(parseGranted(t, l.seen.String()).cpus)
		if err != nil {
			t.Fatal(err)
		}
		return l, cpus, l.seen.String()
	}
	first := c.top.CPUs([]topology.Pair{{Socket: 0, Core: 0}})
	for i := range c.top.NumCores() {
		l, cpus, text := start("-binding", "linear:1")
		if strings.Contains(text, "runs unbound") || !cpus.Intersect(used).IsEmpty() {
			t.Fatalf("job %d has processors %s, in use are %s: %s", i, cpus, used, text)
		}
		socket := topology.Pair{Socket: i}
		if core, ok := c.top.Core(socket); ok && !core.CPUs.Equal(cpus) {
			t.Errorf("job %d has processors %s, want those of the first core of a socket without jobs, %s", i, cpus, core.CPUs)
		}
		used = used.Union(cpus)
		jobs = append(jobs, l)
	}
	if !used.Equal(c.top.Usable()) {
		t.Errorf("processors %s are in use", used)
	}
	l, cpus, text := start("-binding", "linear:1")
	if !strings.Contains(text, "runs unbound: cannot bind to cores set linear:1: too few cores are free: 1 of 0 free") || !cpus.Equal(c.top.Usable()) {
		t.Errorf("one job too many has processors %s: %s", cpus, text)
	}
	l.abandon()
	jobs[0].abandon()
	_, cpus, text = start("-binding", "linear:1")
	if !cpus.Equal(first) {
		t.Errorf("behind the first job its core is not given again, but %s: %s", cpus, text)
	}
}

// TestAffinityInAGroup checks the binding of a job whose group has no cpuset, while another job has one:
// before Linux 6.2, a process that enters such a group may use all processors.
func TestAffinityInAGroup(t *testing.T) {
	c := onCores(t, asRoot)
	other := c.start(t, c.args("-binding", "explicit:0,0", "stay.sh")...)
	other.expect("^ready$")
	for _, cpuset := range []string{"cpuset=true", "cpuset=false"} {
		t.Run(cpuset, func(t *testing.T) {
			c.write(t, cpuset+"/conf/global", "cgroups_params "+cpuset+"\n")
			r := c.run(t, c.args("--conf", cpuset, "-l", "h_vmem=1G", "-binding", "explicit:1,1", "job.sh")...)
			if r.status != 0 || strings.Contains(r.stderr, "runs unbound") {
				t.Fatalf("exit status %d, %s", r.status, r.stderr)
			}
			g := parseGranted(t, r.stdout)
			g.cpuset = g.cpuset && cpuset == "cpuset=true"
			cpus := c.top.CPUs([]topology.Pair{{Socket: 1, Core: 1}})
			c.check(t, g, cpus, true, cpus)
		})
	}
}
