package cluster

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// ranks is an MPI program: each rank prints its host and the processors that it may use. With
// "wait" the ranks then wait until they are killed, with "work" they exchange messages until they
// are, and with "die" the last rank kills itself.
const ranks = `#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int rank, size, one = 1, sum = 0;
	char host[256];
	cpu_set_t set;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	gethostname(host, sizeof host);
	sched_getaffinity(0, sizeof set, &set);
	printf("rank %d of %d on %s, %d processors\n", rank, sum, host, CPU_COUNT(&set));
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	if (argc > 1 && argv[1][0] == 'd' && rank == size - 1)
		abort();
	while (argc > 1 && argv[1][1] == 'o') {
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		usleep(100000);
	}
	while (argc > 1)
		pause();
	MPI_Finalize();
	return 0;
}
`

// mpi is an MPI library of Debian.
type mpi struct {
	name, compiler, run, packages string
	machines, file                string // the awk program that makes a machine file, and the option for it
	unbound                       string // the options with which the library itself binds nothing
}

var mpis = []mpi{
	{
		"Open MPI", "mpicc.openmpi", "mpirun.openmpi", "openmpi-bin libopenmpi-dev",
		`{print $1, "slots="$2}`, "-machinefile", "--bind-to none",
	},
	{"MPICH", "mpicc.mpich", "mpiexec.hydra", "mpich libmpich-dev", `{print $1":"$2}`, "-f", ""},
}

// TestSoakMPI runs programs of MPI libraries on three hosts, each of which has two ranks. The
// library starts the ranks with Grid Engine's qrsh -inherit. No rank is left on any host after a
// program has ended, whether by itself, with a rank that dies, by qdel, after a restart of the agents,
// or by qdel while a host is unreachable.
func TestSoakMPI(t *testing.T) {
	testenv.Soak(t)
	for _, library := range mpis {
		t.Run(library.name, func(t *testing.T) {
			for _, program := range []string{library.compiler, library.run, "gcc"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not installed (apt-get install gcc %s)", program, library.packages)
				}
			}
			onThreeHosts(t, library)
		})
	}
}

func onThreeHosts(t *testing.T, library mpi) {
	c := start(t, gridengine.Config{Nodes: nodes, Conf: map[string]string{"load_report_time": "00:00:01", "max_unheard": "00:00:10"}})
	for _, n := range nodes {
		if err := c.StartNode(n, true); err != nil {
			t.Fatalf("%v\n%s", err, c.Messages())
		}
	}
	if err := c.AddPE("mpi", map[string]string{
		"slots": "100", "start_proc_args": "NONE", "stop_proc_args": "NONE", "control_slaves": "TRUE", "job_is_first_task": "FALSE", "allocation_rule": "2",
	}); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{
		"hostlist": strings.Join(nodes, " "), "slots": "4", "pe_list": "mpi",
		"tmpdir": "/tmp,[node1=/tmp/node1],[node2=/tmp/node2],[node3=/tmp/node3]",
	})
	source, built := filepath.Join(t.TempDir(), "ranks.c"), filepath.Join(t.TempDir(), "ranks")
	testenv.WriteFile(t, source, ranks)
	if out, err := exec.Command(library.compiler, "-o", built, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := c.AddProgram("ranks", built); err != nil {
		t.Fatal(err)
	}
	const program = gridengine.BinDir + "/ranks"
	running := func() int {
		out, _ := c.Root("pgrep", "-fc", "^"+program)
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			t.Errorf("pgrep says %q", out)
		}
		return n
	}
	out := func(job int) string { return fmt.Sprintf("/home/alice/mpi.%d", job) }
	script := c.script("mpi.sh", "exec "+library.run+" "+library.unbound+" "+program+" \"$@\"\n")
	submit := func(args ...string) int {
		return c.qsub(append([]string{"-pe", "mpi", "6", "-masterq", "all.q@node1", "-o", "/home/alice/mpi.$JOB_ID", "-j", "y"}, args...)...)
	}
	// placed returns the number of ranks on each host, and checks that each has the processors.
	rank := regexp.MustCompile(`(?m)^rank (\d+) of 6 on (\S+), (\d+) processors$`)
	placed := func(job, processors int) map[string]int {
		hosts, seen := map[string]int{}, map[string]bool{}
		for _, found := range rank.FindAllStringSubmatch(c.file(out(job)), -1) {
			if hosts[found[2]]++; seen[found[1]] || processors != 0 && found[3] != strconv.Itoa(processors) {
				t.Errorf("%q", found[0])
			}
			seen[found[1]] = true
		}
		return hosts
	}
	everywhere := map[string]int{"node1": 2, "node2": 2, "node3": 2}
	ready := func(job int) {
		t.Helper()
		c.until("all ranks run", func() bool { return c.exists(out(job)) && maps.Equal(placed(job, 0), everywhere) })
	}
	own := func(job int) gridengine.Record {
		t.Helper()
		c.until("the job has a record", func() bool { return c.records(job)["NONE"] != nil })
		return c.records(job)["NONE"]
	}
	// gone waits until nothing of the jobs is left. The tasks report their ends when they have ended.
	gone := func() {
		t.Helper()
		c.until("no rank is left", func() bool { return running() == 0 })
		c.until("the agents have no job directory", func() bool {
			return !slices.ContainsFunc(nodes, func(n string) bool { return len(c.NodeJobs(n)) > 0 })
		})
	}
	sub := func(name string, f func(c *cell)) { c.Run(name, func(t *testing.T) { f(&cell{c.Cell, t}) }) }
	sub("hosts from PE_HOSTFILE", func(c *cell) {
		job := submit(script)
		c.want(own(job), map[string]string{"failed": "0", "exit_status": "0"})
		if got := placed(job, 0); !maps.Equal(got, everywhere) {
			c.Errorf("ranks: %v\n%s", got, c.file(out(job)))
		}
		gone()
	})
	sub("a machine file", func(c *cell) {
		job := submit(c.script("machines.sh", "awk '"+library.machines+"' \"$PE_HOSTFILE\" >\"$TMPDIR/machines\"\n"+
			"exec "+library.run+" "+library.file+" \"$TMPDIR/machines\" -np \"$NSLOTS\" "+program+"\n"))
		c.want(own(job), map[string]string{"failed": "0", "exit_status": "0"})
		if got := placed(job, 0); !maps.Equal(got, everywhere) {
			c.Errorf("ranks: %v\n%s", got, c.file(out(job)))
		}
		gone()
	})
	sub("binding", func(c *cell) {
		job := submit("-binding", "linear:1", script)
		c.want(own(job), map[string]string{"failed": "0", "exit_status": "0"})
		if got := placed(job, 1); !maps.Equal(got, everywhere) {
			c.Errorf("ranks: %v\n%s", got, c.file(out(job)))
		}
		gone()
	})
	sub("a rank dies", func(c *cell) {
		job := submit(script, "die")
		if r := own(job); r["exit_status"] == "0" {
			c.Errorf("the job has succeeded: %v\n%s", r, c.file(out(job)))
		}
		gone()
	})
	sub("qdel", func(c *cell) {
		job := submit(script, "wait")
		ready(job)
		c.alice("qdel", strconv.Itoa(job))
		c.want(own(job), map[string]string{"failed": "100"})
		gone()
	})
	sub("the agents are killed and started again", func(c *cell) {
		job := submit(script, "work")
		ready(job)
		for _, n := range nodes {
			if err := c.KillNode(n, syscall.SIGKILL); err != nil {
				c.Fatal(err)
			}
			if err := c.StartNode(n, true); err != nil {
				c.Fatal(err)
			}
		}
		if n := running(); n != 6 {
			c.Errorf("%d ranks run, want 6", n)
		}
		c.alice("qdel", strconv.Itoa(job))
		c.want(own(job), map[string]string{"failed": "100"})
		gone()
	})
	// unheard reports whether sge_qmaster has noticed that a host is unreachable.
	unheard := func(node string) bool {
		out, err := c.Root("qstat", "-f", "-q", "all.q@"+node)
		return err == nil && regexp.MustCompile(`(?m)^all\.q@.* \S*u\S*$`).MatchString(out)
	}
	link := func(node, state string) {
		t.Helper()
		if _, err := c.Node(node, "ip", "link", "set", "eth0", state); err != nil {
			t.Fatal(err)
		}
	}
	for i, cut := range []string{"node1", "node3"} {
		sub("qdel while "+cut+" is unreachable", func(c *cell) {
			job := submit(script, "work")
			ready(job)
			link(cut, "down")
			c.until("sge_qmaster has noticed the cut", func() bool { return unheard(cut) })
			c.alice("qdel", strconv.Itoa(job))
			c.until("the ranks of the other hosts have ended", func() bool { return running() <= 2 })
			if i == 0 && running() != 2 {
				c.Errorf("%d ranks run on %s", running(), cut)
			}
			link(cut, "up")
			own(job)
			gone()
		})
		sub("the network of "+cut+" fails for some time", func(c *cell) {
			job := submit(script, "work")
			ready(job)
			link(cut, "down")
			c.until("sge_qmaster has noticed the cut", func() bool { return unheard(cut) })
			link(cut, "up")
			c.until("the host is known again", func() bool { return !unheard(cut) })
			if n := running(); n != 6 {
				c.Errorf("%d ranks run, want 6", n)
			}
			c.alice("qdel", strconv.Itoa(job))
			c.want(own(job), map[string]string{"failed": "100"})
			gone()
		})
	}
}
