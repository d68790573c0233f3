package clients

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// clients are programs of Debian that use the commands of Grid Engine. Each makes sum.txt with 0, 1
// and 2, by four jobs or more.
var clients = []struct {
	program, packages string
	files             map[string]string
	command           string
}{
	{
		"snakemake", "snakemake", map[string]string{"Snakefile": `
rule all:
    input: "sum.txt"
rule part:
    output: "part{i}.txt"
    shell: "echo {wildcards.i} > {output}"
rule sum:
    input: expand("part{i}.txt", i=range(3))
    output: "sum.txt"
    shell: "cat {input} > {output}"
`}, "snakemake --latency-wait 20 --cluster 'qsub -cwd -V -j y -o /dev/null' -j 4",
	},
	{
		"makeflow", "coop-computing-tools openmpi-bin", map[string]string{"Makeflow": `
part0.txt:
	echo 0 > part0.txt
part1.txt:
	echo 1 > part1.txt
part2.txt:
	echo 2 > part2.txt
sum.txt: part0.txt part1.txt part2.txt
	cat part0.txt part1.txt part2.txt > sum.txt
`}, "makeflow -T sge Makeflow",
	},
	{
		"toil", "toil", map[string]string{"sum.py": `
from toil.common import Toil
from toil.job import Job

small = {"memory": "100M", "disk": "100M", "cores": 1}

def part(job, i):
    return i

def start(job):
    return [job.addChildJobFn(part, i, **small).rv() for i in range(3)]

if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    with Toil(options) as toil:
        parts = toil.start(Job.wrapJobFn(start, **small))
    with open("sum.txt", "w") as f:
        for i in parts:
            print(i, file=f)
`}, "python3 sum.py --batchSystem grid_engine --disableCaching --statePollingWait 1 $PWD/store",
	},
	{
		"Rscript", "r-cran-batchtools", map[string]string{"sum.tmpl": `#!/bin/sh
#$ -N <%= job.name %>
#$ -j y
#$ -o <%= log.file %>
#$ -cwd
#$ -V
Rscript -e 'batchtools::doJobCollection("<%= uri %>")'
`, "sum.R": `
library(batchtools)
registry = makeRegistry("registry", seed = 1)
registry$cluster.functions = makeClusterFunctionsSGE("sum.tmpl")
batchMap(function(x) { x - 1 }, x = 1:4)
submitJobs()
stopifnot(waitForJobs(sleep = 1, timeout = 100))
writeLines(as.character(unlist(reduceResultsList()))[1:3], "sum.txt")
`}, "Rscript -e 'library(batchtools)' && Rscript sum.R",
	},
	{
		"nipypecli", "python3-nipype", map[string]string{"sum.py": `
from nipype import Function, MapNode, Node, Workflow

def part(i):
    return i

def total(parts, path):
    with open(path, "w") as f:
        for i in parts:
            print(i, file=f)

import os
if __name__ == "__main__":
    parts = MapNode(Function(["i"], ["out"], part), "i", name="parts")
    parts.inputs.i = [0, 1, 2]
    end = Node(Function(["parts", "path"], [], total), name="total")
    end.inputs.path = os.path.abspath("sum.txt")
    flow = Workflow("flow", base_dir=os.getcwd())
    flow.connect(parts, "out", end, "parts")
    flow.run(plugin="SGE", plugin_args={"qsub_args": "-q all.q"})
`}, "/usr/bin/python3 sum.py",
	},
	{
		"ipcluster", "python3-ipyparallel", map[string]string{"sum.py": `
import ipyparallel

def identity(i):
    return i

with ipyparallel.Cluster(engine_launcher_class="sge", n=4, profile_dir="profile", cluster_id="sum") as client:
    parts = client[:].map_sync(identity, range(3))
    with open("sum.txt", "w") as f:
        for i in parts:
            print(i, file=f)
`}, "/usr/bin/python3 sum.py && until test -z \"$(qstat)\"; do sleep 0.1; done",
	},
}

// livePatience is the timeout for such a program: some poll only every ten seconds.
const livePatience = 5 * time.Minute

// TestSoakLiveClients runs workflows with such programs, unchanged.
func TestSoakLiveClients(t *testing.T) {
	testenv.Soak(t)
	for _, c := range clients {
		t.Run(c.program, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skipf("%s is not installed (apt-get install --no-install-recommends %s)", c.program, c.packages)
			}
			s := newSite(t, 4)
			for name, text := range c.files {
				s.file(name, text)
			}
			ctx, cancel := context.WithTimeout(t.Context(), livePatience)
			defer cancel()
			if out, err := s.command(ctx, s.user, "/bin/sh", "-c", c.command).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if sum := s.read("sum.txt"); sum != "0\n1\n2\n" {
				t.Errorf("the result is %q", sum)
			}
			if n := strings.Count(s.must(s.run("qacct", "-j")), "\njobnumber "); n < 4 {
				t.Errorf("%d jobs ran, want 4", n)
			}
		})
	}
}
