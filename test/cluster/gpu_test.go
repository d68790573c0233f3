package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestGPUs lets the agent choose GPUs for jobs of an sge_qmaster that only counts them: no two jobs
// get the same GPU, even after the agent was killed, and no job can open other GPUs than its own.
func TestGPUs(t *testing.T) { countedGPUs(t, "") }

// TestSoakFrontGPUs does the same with an agent of two processes: the launcher chooses.
func TestSoakFrontGPUs(t *testing.T) {
	testenv.Soak(t)
	countedGPUs(t, frontUser)
}

// countedGPUs is TestGPUs. front is as in gridengine.Config.
func countedGPUs(t *testing.T, front string) {
	t.Helper()
	testenv.Require(t, testenv.Cgroup)
	c := start(t, gridengine.Config{FrontUser: front, Conf: map[string]string{"load_report_time": "00:00:01"}})
	const root = "/home/cell/gpus"
	uuids := []string{"GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-11111111-aaaa-bbbb-cccc-000000000002"}
	testenv.GPUs(t, c.Path(root),
		testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA H100", UUID: uuids[0], Minor: 0},
		testenv.GPU{Vendor: "nvidia", Address: "0000:61:00.0", Model: "NVIDIA H100", UUID: uuids[1], Minor: 1})
	for i := range uuids {
		testenv.Node(t, c.Path(fmt.Sprintf("%s/dev/nvidia%d", root, i)), 195, i)
	}
	if err := c.AddFile("/tmp/complexes", c.root("qconf", "-sc")+"gpu gpu INT <= YES YES 0 0\n", 0o644); err != nil {
		t.Fatal(err)
	}
	c.root("qconf", "-Mc", "/tmp/complexes")
	c.root("qconf", "-mattr", "exechost", "complex_values", "gpu=2", c.Host)
	if err := c.AddPE("smp", map[string]string{"allocation_rule": "$pe_slots", "control_slaves": "TRUE", "slots": "99"}); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{"slots": "10", "pe_list": "smp"})
	options := []string{"--gpu-complex", "gpu", "--gpu-root", root}
	c.anotherAgent(options...)

	// It writes the GPUs that it was granted and can open, and exits on request.
	script := c.script("gpu.sh", `seen() { echo "$1 $SGE_HGR_gpu $CUDA_VISIBLE_DEVICES" $(for i in 0 1; do
	case $(LC_ALL=C cat `+root+`/dev/nvidia$i 2>&1) in *"not permitted"*) ;; *) echo open$i;; esac; done); }
if [ "$1" = task ]; then seen task; exit; fi
seen job >/home/alice/gpu.tmp.$JOB_ID
[ -z "$PE" ] || qrsh -inherit $HOSTNAME $0 task >>/home/alice/gpu.tmp.$JOB_ID 2>&1
mv /home/alice/gpu.tmp.$JOB_ID /home/alice/gpu.$JOB_ID
while [ ! -e /home/alice/end.$JOB_ID ]; do sleep 0.1; done
`)
	submit := func(args ...string) int {
		return c.qsub(append(append([]string{"-o", "/dev/null", "-j", "y"}, args...), script)...)
	}
	seen := func(job int) string {
		t.Helper()
		out := fmt.Sprintf("/home/alice/gpu.%d", job)
		c.until(fmt.Sprintf("job %d has written", job), func() bool { return c.exists(out) })
		return c.file(out)
	}
	end := func(job int) {
		t.Helper()
		if err := c.AddFile(fmt.Sprintf("/home/alice/end.%d", job), "", 0o644); err != nil {
			t.Fatal(err)
		}
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "0"})
	}
	has := func(i int) string { return fmt.Sprintf("%d %s open%[1]d", i, uuids[i]) }

	first := submit("-l", "gpu=1")
	if got, want := seen(first), "job "+has(0)+"\n"; got != want {
		t.Errorf("the first job has\n%swant\n%s", got, want)
	}
	none := submit()
	if got, want := seen(none), "job -1\n"; strings.Join(strings.Fields(got), " ")+"\n" != want {
		t.Errorf("a job without a GPU has\n%s", got)
	}
	end(none)
	c.anotherAgent(options...)
	second := submit("-l", "gpu=1")
	if got, want := seen(second), "job "+has(1)+"\n"; got != want {
		t.Errorf("the second job has\n%swant\n%s", got, want)
	}
	end(first)
	third := submit("-l", "gpu=1")
	if got, want := seen(third), "job "+has(0)+"\n"; got != want {
		t.Errorf("the third job has\n%swant\n%s", got, want)
	}
	end(second)
	end(third)

	both := submit("-pe", "smp", "2", "-l", "gpu=1")
	words := "0 1 " + strings.Join(uuids, ",") + " open0 open1\n"
	if got, want := seen(both), "job "+words+"task "+words; got != want {
		t.Errorf("a parallel job has\n%swant\n%s", got, want)
	}
	// The master counts more GPUs than exist.
	c.root("qconf", "-mattr", "exechost", "complex_values", "gpu=3", c.Host)
	more := submit("-l", "gpu=1")
	c.until("the queue is in error", func() bool { return strings.Contains(c.root("qstat", "-f"), " E\n") })
	if out := c.root("qstat", "-f", "-explain", "E"); !strings.Contains(out, fmt.Sprintf("queue all.q marked QERROR as result of job %d's failure", more)) {
		t.Errorf("qstat -explain E says\n%s", out)
	}
	if log := c.AgentLog(); !strings.Contains(log, "the job was granted gpu=1, but this host offers 2 GPUs, and other jobs have 2 of them") {
		t.Errorf("the agent does not say why:\n%s", log)
	}
	c.alice("qdel", strconv.Itoa(more))
	end(both)
	c.nothingLeft()
}
