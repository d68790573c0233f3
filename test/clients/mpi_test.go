package clients

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// pe is a parallel environment for MPI.
const pe = `pe_name mpi
slots 99
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $fill_up
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
`

// mpiSite returns a site with that environment. Its daemon uses the host name node1, which differs
// from the kernel's.
func mpiSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, 8)
	s.must(s.root("qconf", "-Ap", s.file("mpi.pe", pe)))
	s.must(s.root("qconf", "-aattr", "queue", "pe_list", "mpi", "all.q"))
	return s
}

// settings are the lines that put the commands of the daemon into PATH of a job.
const settings = "#!/bin/sh\n. \"$SGE_ROOT/$SGE_CELL/common/settings.sh\"\n"

// TestInherit runs commands on the hosts in PE_HOSTFILE, as mpirun does.
func TestInherit(t *testing.T) {
	s := mpiSite(t)
	script := s.script("inherit.sh", settings+`
read -r host slots queue <"$PE_HOSTFILE"
echo "$host $slots $queue"
qrsh -inherit -nostdin -V "$host" echo task of '$JOB_ID'
qrsh -inherit -nostdin -V "$host.example.org" exit 7
echo "status $?"
qrsh -inherit -nostdin -V node2 echo wrong
echo "status $?"
`)
	id := strings.TrimSpace(s.must(s.run("qsub", "-terse", "-sync", "y", "-cwd", "-j", "y", "-o", "out", "-pe", "mpi", "3", script)))
	id, _, _ = strings.Cut(id, "\n")
	want := "node1 3 all.q@node1 UNDEFINED\ntask of " + id + "\nstatus 7\nerror: the job runs on node1, and not on node2\nstatus 1\n"
	if got := s.read("out"); got != want {
		t.Errorf("the job printed %q, want %q", got, want)
	}
}

// ranks is an MPI program: each rank prints its process ID and how many processors it may use. With
// "wait" the ranks then wait until they are killed, and with "die" rank 1 kills itself.
const ranks = `#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int rank, size, one = 1, sum = 0;
	cpu_set_t set;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	sched_getaffinity(0, sizeof set, &set);
	printf("rank of %d sum %d process %d, %d processors\n", size, sum, getpid(), CPU_COUNT(&set));
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	if (argc > 1 && argv[1][0] == 'd' && rank == 1)
		abort();
	while (argc > 1)
		pause();
	MPI_Finalize();
	return 0;
}
`

// TestSoakMPI runs programs of MPI libraries on four slots, with the hosts that the library reads from
// PE_HOSTFILE and with a machine file. Some programs finish, one of which is bound to a processor; one
// loses a rank; and one survives a restart of the daemon, and is deleted. No rank may be left.
func TestSoakMPI(t *testing.T) {
	testenv.Soak(t)
	for name, library := range map[string]struct{ compiler, run, machines, file, unbound, packages string }{
		// Debian's Open MPI starts orted with qrsh, since it does not recognize node1 as the name
		// of this host.
		"Open MPI": {"mpicc.openmpi", "mpirun.openmpi", `{print $1, "slots="$2}`, "-machinefile", "--bind-to none", "openmpi-bin libopenmpi-dev"},
		"MPICH":    {"mpicc.mpich", "mpiexec.hydra", `{print $1":"$2}`, "-f", "", "mpich libmpich-dev"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, program := range []string{library.compiler, library.run, "gcc"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not installed (apt-get install gcc %s)", program, library.packages)
				}
			}
			s := mpiSite(t)
			program := filepath.Join(s.work, "ranks")
			if out, err := s.command(t.Context(), s.user, library.compiler, "-o", program, s.file("ranks.c", ranks)).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			script := s.script("mpi.sh", settings+"exec "+library.run+" "+library.unbound+" -np \"$NSLOTS\" "+program+" \"$@\"\n")
			machines := s.script("machines.sh", settings+"awk '"+library.machines+"' \"$PE_HOSTFILE\" >\"$TMPDIR/machines\"\n"+
				"exec "+library.run+" "+library.file+" \"$TMPDIR/machines\" -np \"$NSLOTS\" "+program+"\n")
			submit := func(out, script string, args ...string) string {
				t.Helper()
				line := append([]string{"-terse", "-cwd", "-j", "y", "-o", out, "-pe", "mpi", "4", script}, args...)
				if out == "bound" {
					line = append([]string{"-binding", "linear:1"}, line...)
				}
				return strings.TrimSpace(s.must(s.run("qsub", line...)))
			}
			finished := func(id string) {
				t.Helper()
				s.until("job "+id+" has left", func() bool { return !strings.Contains(s.run("qstat").stdout, " "+id+" ") })
			}
			complete := func(out string) []string {
				t.Helper()
				found := regexp.MustCompile(`rank of 4 sum 4 process (\d+), \d+ processors\n`).FindAllStringSubmatch(s.read(out), -1)
				var list []string
				for _, f := range found {
					list = append(list, f[1])
				}
				return list
			}
			gone := func(out string) {
				t.Helper()
				list := complete(out)
				if len(list) != 4 {
					t.Errorf("%s: %d ranks, want 4: %s", out, len(list), s.read(out))
				}
				for _, pid := range list {
					if line, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && bytes.Contains(line, []byte(program)) {
						t.Errorf("%s: rank %s is left", out, pid)
					}
				}
			}
			status := func(id string) string {
				t.Helper()
				found := exitStatus.FindStringSubmatch(s.must(s.run("qacct", "-j", id)))
				if found == nil {
					t.Fatalf("job %s has no exit status", id)
				}
				return found[1]
			}

			for out, id := range map[string]string{
				"good": submit("good", script), "listed": submit("listed", machines), "bound": submit("bound", script),
			} {
				finished(id)
				if gone(out); status(id) != "0" {
					t.Errorf("%s: exit status %s\n%s", out, status(id), s.read(out))
				}
			}
			if text := s.read("bound"); strings.Count(text, ", 1 processors\n") != 4 {
				t.Errorf("each rank should have one processor: %s", text)
			}
			dies := submit("dies", script, "die")
			finished(dies)
			if gone("dies"); status(dies) == "0" {
				t.Errorf("a rank died, and the job has succeeded: %s", s.read("dies"))
			}
			deleted := submit("deleted", script, "wait")
			s.until("all ranks run", func() bool { return len(complete("deleted")) == 4 })
			s.restart()
			s.until("the job goes on", func() bool { return strings.Contains(s.run("qstat", "-s", "r").stdout, " "+deleted+" ") })
			s.must(s.run("qdel", deleted))
			finished(deleted)
			gone("deleted")
		})
	}
}
