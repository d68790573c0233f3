package clients

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// liveClient is a program of Debian that uses the commands of Grid Engine. It makes sum.txt with the
// numbers below PARTS by as many jobs, and by one more if it starts the addition as a job, too. Each of
// these jobs writes its number to the file started, and runs DOES in a shell.
type liveClient struct {
	packages string
	files    map[string]string
	command  string
	// endless is the last output of a program that does not exit after a job has failed six times. The
	// program then calls no further commands.
	endless string
	// afterKill says what it does after a job was killed.
	afterKill reaction
	// slowRestart is true if it takes a minute for each finished job that qstat -s z does not list, as
	// after a restart of the daemon.
	slowRestart bool
}

// reaction says what a program does when one of its jobs is killed.
type reaction int

const (
	reports   reaction = iota
	waits              // for a file of the job, or for other workers
	runsAgain          // runs the job again
)

const snakefile = `
rule all:
    input: "sum.txt"
rule part:
    output: "part{i}.txt"
    shell: "echo {wildcards.i} >> STARTED; (DOES) && echo {wildcards.i} > {output}"
rule sum:
    input: expand("part{i}.txt", i=range(PARTS))
    output: "sum.txt"
    shell: "cat {input} > {output}"
`

// makeMakeflow writes the file for makeflow.
const makeMakeflow = `
parts = ["part%d.txt" % i for i in range(PARTS)]
with open("Makeflow", "w") as f:
    for i, part in enumerate(parts):
        f.write("%s:\n\techo %d >> STARTED; (DOES) && echo %d > %s\n" % (part, i, i, part))
    f.write("sum.txt: %s\n\tcat %s > sum.txt\n" % (" ".join(parts), " ".join(parts)))
`

// liveClients are the programs, by their command.
var liveClients = map[string]liveClient{
	"snakemake": {
		packages: "snakemake", files: map[string]string{"Snakefile": snakefile},
		command:   "snakemake --latency-wait 20 --cluster 'qsub -cwd -V -j y -o /dev/null' --cluster-cancel qdel -j 250",
		afterKill: waits,
	},
	"snakemake with a status script": {
		packages: "snakemake", files: map[string]string{"Snakefile": snakefile, "status.sh": `#!/bin/sh
if qstat -j "$1" >/dev/null 2>&1; then
	echo running
elif [ "$(qacct -j "$1" | awk '/^exit_status/ {print $2}')" = 0 ]; then
	echo success
else
	echo failed
fi
`}, command: "snakemake --latency-wait 20 --cluster 'qsub -terse -cwd -V -j y -o /dev/null' --cluster-cancel qdel --cluster-status 'sh status.sh' -j 250",
	},
	// With more jobs at once it runs jobs again that have ended: see docs/clients.md.
	"makeflow": {
		packages: "coop-computing-tools openmpi-bin", files: map[string]string{"make.py": makeMakeflow},
		command: "python3 make.py && makeflow -T sge -J 30 Makeflow", endless: "failed too many times", afterKill: runsAgain,
	},
	"sge_submit_workers": {
		packages: "coop-computing-tools openmpi-bin", files: map[string]string{"make.py": makeMakeflow, "run.sh": `
python3 make.py
makeflow -T wq -Z port Makeflow &
until test -s port; do sleep 0.1; done
sge_submit_workers -t 300 127.0.0.1 $(cat port) 4 || kill $!
wait $!
status=$?
qdel -u $USER
until test -z "$(qstat)"; do sleep 0.1; done
exit $status
`}, command: "sh run.sh", endless: "failed too many times", afterKill: waits,
	},
	"toil": {
		packages: "toil", files: map[string]string{"sum.py": `
import subprocess

from toil.common import Toil
from toil.job import Job

small = {"memory": "100M", "disk": "100M", "cores": 1}

def part(job, i):
    subprocess.check_call(["/bin/sh", "-c", "echo %d >> STARTED; DOES" % i])
    return i

def start(job):
    return [job.addChildJobFn(part, i, **small).rv() for i in range(PARTS)]

if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    with Toil(options) as toil:
        parts = toil.start(Job.wrapJobFn(start, **small))
    with open("sum.txt", "w") as f:
        for i in parts:
            print(i, file=f)
`}, command: "python3 sum.py --batchSystem grid_engine --disableCaching --maxLocalJobs 250 --retryCount 0 --statePollingWait 1 $PWD/store",
	},
	"Rscript": {
		packages: "r-cran-batchtools", files: map[string]string{"sum.tmpl": `#!/bin/sh
#$ -N <%= job.name %>
#$ -j y
#$ -o <%= log.file %>
#$ -cwd
#$ -V
Rscript -e 'batchtools::doJobCollection("<%= uri %>")'
`, "sum.R": `
library(batchtools)
registry = makeRegistry("registry", seed = 1)
registry$cluster.functions = makeClusterFunctionsSGE("sum.tmpl", fs.latency = 10)
batchMap(function(x) {
	if (system(sprintf("echo %d >> STARTED; DOES", x - 1)) != 0) stop("it failed")
	x - 1
}, x = 1:PARTS)
submitJobs()
stopifnot(waitForJobs(sleep = 1, timeout = 1500))
writeLines(as.character(unlist(reduceResultsList())), "sum.txt")
`}, command: "Rscript -e 'library(batchtools)' && Rscript sum.R",
	},
	"nipypecli": {
		packages: "python3-nipype", files: map[string]string{"sum.py": `
from nipype import Function, MapNode, Node, Workflow

def part(i):
    import subprocess
    subprocess.check_call(["/bin/sh", "-c", "echo %d >> STARTED; DOES" % i])
    return i

def total(parts, path):
    with open(path, "w") as f:
        for i in parts:
            print(i, file=f)

import os
if __name__ == "__main__":
    parts = MapNode(Function(["i"], ["out"], part), "i", name="parts")
    parts.inputs.i = list(range(PARTS))
    end = Node(Function(["parts", "path"], [], total), name="total")
    end.inputs.path = os.path.abspath("sum.txt")
    flow = Workflow("flow", base_dir=os.getcwd())
    flow.connect(parts, "out", end, "parts")
    flow.run(plugin="SGE", plugin_args={"qsub_args": "-q all.q"})
`}, command: "/usr/bin/python3 sum.py", slowRestart: true,
	},
	"parallel": {
		packages: "parallel", files: map[string]string{"part.sh": `#!/bin/sh
echo $1 >> STARTED
(DOES) && echo $1 > part$1.txt
`}, command: "seq 0 $((PARTS-1)) | parallel -j 250 --halt soon,fail=1 qsub -sync y -cwd -j y -o /dev/null part.sh && " +
			"cat $(seq -f part%g.txt 0 $((PARTS-1))) >sum.txt",
	},
	"dask-worker": {
		packages: "python3-distributed", files: map[string]string{"sum.py": `
import subprocess, sys
from distributed import Client, LocalCluster

def part(i):
    subprocess.check_call(["/bin/sh", "-c", "echo %d >> STARTED; DOES" % i])
    return i

if __name__ == "__main__":
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        job = subprocess.check_output(["qsub", "-terse", "-cwd", "-V", "-j", "y", "-o", "/dev/null", "-t", "1-4", "-b", "y",
            "dask-worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60", cluster.scheduler_address], text=True).split(".")[0]
        try:
            client.wait_for_workers(4)
            parts = client.gather(client.map(part, range(PARTS)))
        finally:
            subprocess.check_call(["qdel", job])
    with open("sum.txt", "w") as f:
        for i in parts:
            print(i, file=f)
`}, command: "/usr/bin/python3 sum.py && until test -z \"$(qstat)\"; do sleep 0.1; done",
		afterKill: waits,
	},
	"ipcluster": {
		packages: "python3-ipyparallel", files: map[string]string{"sum.py": `
import ipyparallel

def part(i):
    import subprocess
    subprocess.check_call(["/bin/sh", "-c", "echo %d >> STARTED; DOES" % i])
    return i

with ipyparallel.Cluster(engine_launcher_class="sge", n=4, profile_dir="profile", cluster_id="sum") as client:
    parts = client[:].map_sync(part, range(PARTS))
    with open("sum.txt", "w") as f:
        for i in parts:
            print(i, file=f)
`}, command: "/usr/bin/python3 sum.py && until test -z \"$(qstat)\"; do sleep 0.1; done",
	},
}

// liveRun is a run of a client's workflow.
type liveRun struct {
	*site
	client liveClient
	out    testenv.Transcript
	over   chan error
}

// begin starts the workflow, in a directory of its own.
func (c liveClient) begin(ctx context.Context, s *site, name string, parts int, does string) *liveRun {
	s.Helper()
	s.work = testenv.Open(s, filepath.Join(s.dir, name))
	fill := strings.NewReplacer("PARTS", strconv.Itoa(parts), "DOES", does, "STARTED", filepath.Join(s.work, "started"))
	for name, text := range c.files {
		s.file(name, fill.Replace(text))
	}
	r := &liveRun{site: s, client: c, over: make(chan error, 1)}
	cmd := s.command(ctx, s.user, "/bin/sh", "-c", fill.Replace(c.command))
	cmd.Stdout, cmd.Stderr = &r.out, &r.out
	cmd.WaitDelay = time.Second
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // the programs that the shell starts end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { r.over <- cmd.Wait() }()
	return r
}

// started returns how many jobs have started.
func (r *liveRun) started() int { return strings.Count(r.read("started"), "\n") }

// awaitStarted waits until some jobs have started.
func (r *liveRun) awaitStarted(n int) {
	r.Helper()
	again := time.NewTicker(period)
	defer again.Stop()
	for r.started() < n {
		select {
		case err := <-r.over:
			r.Fatalf("%d of %d jobs have started: %v\n%s", r.started(), n, err, r.out.String())
		case <-again.C:
		}
	}
}

// succeeds waits for the end, and checks the result.
func (r *liveRun) succeeds(parts int) {
	r.Helper()
	if err := <-r.over; err != nil {
		r.Errorf("%v\n%s", err, r.out.String())
	}
	var want strings.Builder
	for i := range parts {
		fmt.Fprintln(&want, i)
	}
	if sum := r.read("sum.txt"); sum != want.String() {
		r.Errorf("the result is %q\n%s", sum, r.out.String())
	}
	if n := r.started(); n != parts {
		r.Errorf("%d jobs have started, want %d", n, parts)
	}
}

// fails waits for the end, and checks that the client reports it.
func (r *liveRun) fails() {
	r.Helper()
	if err := <-r.over; err == nil {
		r.Errorf("the workflow has succeeded\n%s", r.out.String())
	}
	if sum := r.read("sum.txt"); sum != "" {
		r.Errorf("the result is %q", sum)
	}
	r.Logf("it says: %s", lastLines(r.out.String(), 8))
}

// still expects that the program goes on, which the caller ends.
func (r *liveRun) still(end context.CancelFunc) {
	r.Helper()
	select {
	case err := <-r.over:
		r.Errorf("the workflow has ended: %v\n%s", err, r.out.String())
		return
	default:
	}
	r.Logf("%d jobs have started; it says: %s", r.started(), lastLines(r.out.String(), 8))
	end()
	if err := <-r.over; err == nil {
		r.Errorf("the workflow has succeeded, although it was killed\n%s", r.out.String())
	}
	if sum := r.read("sum.txt"); sum != "" {
		r.Errorf("the result is %q", sum)
	}
	r.root("qdel", "-u", "*")
	r.until("all jobs have left", func() bool { return r.root("qstat", "-u", "*").stdout == "" })
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// livePatience is the timeout for all runs of such a program: some poll only every ten seconds.
const livePatience = 20 * time.Minute

// TestSoakLiveClients runs workflows with such programs, unchanged: one with three jobs; one whose
// jobs fail; one whose jobs are deleted; and one with 200 jobs, during which the daemon is killed. If
// the program is slow then, it is killed during a workflow with three jobs.
// ipcluster and dask-worker run as array jobs.
func TestSoakLiveClients(t *testing.T) {
	testenv.Soak(t)
	const many = 200
	for name, c := range liveClients {
		t.Run(name, func(t *testing.T) {
			program, _, _ := strings.Cut(name, " ")
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("%s is not installed (apt-get install --no-install-recommends %s)", program, c.packages)
			}
			ctx, cancel := context.WithTimeout(t.Context(), livePatience)
			defer cancel()
			s := newSite(t, 30)
			sub := func(name string, f func()) {
				t.Run(name, func(t *testing.T) {
					s.TB = t
					defer func() { s.TB = t }()
					f()
				})
				s.TB = t
			}
			sub("good", func() { c.begin(ctx, s, "good", 3, "true").succeeds(3) })
			sub("failing", func() {
				ctx, end := context.WithCancel(ctx)
				defer end()
				r := c.begin(ctx, s, "failing", 3, "exit 3")
				if c.endless == "" {
					r.fails()
					return
				}
				s.until("it reports that a job fails", func() bool { return strings.Contains(r.out.String(), c.endless) })
				r.still(end)
			})
			sub("killed", func() {
				ctx, end := context.WithCancel(ctx)
				defer end()
				r := c.begin(ctx, s, "killed", 3, "sleep 1000")
				r.awaitStarted(3) // some submit a job only later; it would sleep
				s.must(s.run("qdel", "-u", s.user.Username))
				switch c.afterKill {
				case reports:
					r.fails()
				case runsAgain:
					r.awaitStarted(4)
					r.still(end)
				case waits:
					s.until("all jobs have left", func() bool { return s.root("qstat", "-u", "*").stdout == "" })
					r.still(end)
				}
			})
			if c.slowRestart {
				sub("restarted", func() {
					r := c.begin(ctx, s, "restarted", 3, "sleep 15")
					r.awaitStarted(3)
					s.restart()
					r.succeeds(3)
				})
			}
			sub("many", func() {
				r := c.begin(ctx, s, "many", many, "true")
				r.awaitStarted(many / 4)
				if !c.slowRestart {
					s.restart()
				}
				r.succeeds(many)
			})
		})
	}
}
