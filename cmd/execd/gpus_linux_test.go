package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

// twoKinds are the GPUs of a host, in the order of their numbers.
var twoKinds = []testenv.GPU{
	{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA H100", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001", Minor: 0},
	{Vendor: "nvidia", Address: "0000:61:00.0", Model: "NVIDIA A40", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000002", Minor: 1},
}

// withGPUs returns a world and the first options of an execd run that finds two GPUs in it.
func withGPUs(t *testing.T, m mode) (w *world, root string, options []string) {
	t.Helper()
	w = inWorld(t, m)
	root = openDir(t)
	testenv.GPUs(t, root, twoKinds...)
	testenv.Reply(t, root, "echo '00000000:41:00.0, "+twoKinds[0].UUID+", 81559'", "echo '00000000:61:00.0, "+twoKinds[1].UUID+", 46068'")
	options = []string{"--gpu-root", root, "-wd", "/", "-N", "job"}
	if m == asRoot {
		options = append(options, "--as", "alice")
	}
	return w, root, options
}

// TestGPUsWithoutDaemon checks that execd run gives a job GPUs that satisfy its requests, and that it refuses a job that
// requests others.
func TestGPUsWithoutDaemon(t *testing.T) {
	t.Parallel()
	w, root, options := withGPUs(t, asUser)
	const show = "echo $SGE_HGR_gpu/$CUDA_VISIBLE_DEVICES/$NVIDIA_VISIBLE_DEVICES/$CUDA_DEVICE_ORDER"
	both := twoKinds[0].UUID + "," + twoKinds[1].UUID
	for name, c := range map[string]struct {
		args []string
		want string // of standard output, or with status 125 of standard error
	}{
		"one":               {[]string{"-l", "gpu=1", "-v", "CUDA_VISIBLE_DEVICES=9"}, "0/" + twoKinds[0].UUID + "/" + twoKinds[0].UUID + "/PCI_BUS_ID\n"},
		"both":              {[]string{"-l", "gpu=2"}, "0 1/" + both + "/" + both + "/PCI_BUS_ID\n"},
		"one for each slot": {[]string{"-l", "gpu=1", "-pe", "smp", "2"}, "0 1/" + both + "/" + both + "/PCI_BUS_ID\n"},
		"by its type":       {[]string{"-l", "gpu=1,gpu_type=*A40*"}, "1/" + twoKinds[1].UUID + "/" + twoKinds[1].UUID + "/PCI_BUS_ID\n"},
		"by its memory":     {[]string{"-l", "gpu=1,gpu_mem=64G"}, "0/" + twoKinds[0].UUID + "/" + twoKinds[0].UUID + "/PCI_BUS_ID\n"},
		"none":              {nil, "///\n"},
		"zero":              {[]string{"-l", "gpu=0"}, "///\n"},
		"more than there are": {[]string{"-l", "gpu=3"}, "cannot grant gpu=3: the job needs 3, and 2 of the host's GPUs satisfy its requests; " +
			"the host has 0 (gpu_type=NVIDIA-H100, gpu_mem=81559M), 1 (gpu_type=NVIDIA-A40, gpu_mem=46068M)\n"},
		"a request that one satisfies": {[]string{"-l", "gpu=2,gpu_type=*H100*"}, "cannot grant gpu=2,gpu_type=*H100*: the job needs 2, and 1 of"},
		"requests that none satisfies": {[]string{"-l", "gpu=1,gpu_type=*A40*,gpu_mem=64G"}, "the job needs 1, and 0 of"},
		"nonsense":                     {[]string{"-l", "gpu=1.5"}, "-l gpu=1.5: expected a number of GPUs"},
		"nonsense of an attribute":     {[]string{"-l", "gpu=1,gpu_mem=much"}, "gpu_mem=much: "},
		"on a host without":            {[]string{"--gpu-root", w.dir, "-l", "gpu=1"}, "cannot grant gpu=1: execd has found no GPU on this host: see execd doctor\n"},
	} {
		r := w.run(t, append(append(slices.Clone(options), c.args...), "-b", "y", show)...)
		switch {
		case name != "zero" && strings.Contains(r.stderr, "without effect"):
			t.Errorf("%s: %s", name, r.stderr)
		case r.status == 0 && r.stdout != c.want, r.status != 0 && !strings.Contains(r.stderr, c.want):
			t.Errorf("%s: %+v, want %q", name, r, c.want)
		case r.status != 0 && r.status != 125:
			t.Errorf("%s: exit status %d", name, r.status)
		}
	}
	// A site whose prolog assigns GPUs has an INT consumable.
	w.write(t, "conf/complexes", "gpu gpu INT <= YES YES 0 0\n")
	w.write(t, "conf/queues/all.q", "qname all.q\nshell /bin/sh\nslots 2\n")
	if r := w.run(t, append(slices.Clone(options), "--conf", "conf", "-l", "gpu=1", "-b", "y", show)...); r.stdout != "///\n" || !strings.Contains(r.stderr, "without effect on one host: -l gpu\n") {
		t.Errorf("a site with its own complex: %+v", r)
	}
	w.write(t, "conf/complexes", "gpu gpu RSMAP <= YES YES 0 0\n")
	w.write(t, "conf/hosts/"+hostname(), "hostname "+hostname()+"\ncomplex_values gpu=1(1)\n")
	if r := w.run(t, append(slices.Clone(options), "--conf", "conf", "-l", "gpu=1", "-b", "y", "echo $SGE_HGR_gpu")...); r.stdout != "1\n" {
		t.Errorf("a site that offers one of them: %+v", r)
	}
	if err := os.RemoveAll(filepath.Join(root, "proc/driver/nvidia/gpus", twoKinds[0].Address)); err != nil {
		t.Fatal(err)
	}
	if r := w.run(t, append(slices.Clone(options), "-l", "gpu=2", "-b", "y", "true")...); r.status != 125 || !strings.Contains(r.stderr, "1 of the host's GPUs") {
		t.Errorf("without the driver of one: %+v", r)
	}
}

// TestGPUsOfSeveralRuns checks that no two calls of execd run give the same GPU to their jobs. The job of a call that was
// killed has its GPU until it ends.
func TestGPUsOfSeveralRuns(t *testing.T) {
	t.Parallel()
	w, _, options := withGPUs(t, asUser)
	options = append(options, "-l", "gpu=1", "-b", "y")
	var gpus []string
	var pids []int
	var calls []*live
	for range 2 {
		l := w.start(t, append(slices.Clone(options), "echo has $SGE_HGR_gpu $$; exec sleep 1000")...)
		defer l.abandon()
		words := strings.Fields(l.expect(`^has [01] [0-9]+$`))
		pid, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		gpus, pids, calls = append(gpus, words[1]), append(pids, pid), append(calls, l)
	}
	if gpus[0] == gpus[1] {
		t.Errorf("both jobs have GPU %s", gpus[0])
	}
	if err := calls[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = calls[0].cmd.Wait()
	const want = "cannot grant gpu=1: the host has 2 such GPUs, and other jobs of execd run have 2 of them"
	if r := w.run(t, append(slices.Clone(options), "true")...); r.status != 125 || !strings.Contains(r.stderr, want) {
		t.Errorf("a third job: %+v", r)
	}
	if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; { // until its supervisor has ended, too
		r := w.run(t, append(slices.Clone(options), "echo $SGE_HGR_gpu")...)
		if r.stdout == gpus[0]+"\n" {
			break
		}
		if !strings.Contains(r.stderr, want) || time.Now().After(deadline) {
			t.Fatalf("after the first job: %+v, want GPU %s", r, gpus[0])
		}
	}
}

// TestGPUsOfRootsRun checks that a job can open its own GPU and no other, and that execd run leaves the GPUs to a daemon.
func TestGPUsOfRootsRun(t *testing.T) {
	t.Parallel()
	needs(t, cgroup.Devices)
	w, root, options := withGPUs(t, asRoot)
	for minor, name := range []string{"nvidia0", "nvidia1"} {
		testenv.Node(t, filepath.Join(root, "dev", name), 195, minor)
	}
	// A device without a driver answers ENXIO, and the filter EPERM.
	script := w.write(t, "job", "#!/bin/sh\nfor d in nvidia0 nvidia1; do LC_ALL=C cat "+root+"/dev/$d 2>&1 | sed 's/.*: //'; done\n")
	r := w.run(t, append(slices.Clone(options), "-l", "gpu=1,gpu_type=*A40*", script)...)
	if r.status != 0 || r.stdout != "Operation not permitted\nNo such device or address\n" {
		t.Errorf("a job with GPU 1: %+v", r)
	}
	daemon := gpu.OpenRegister(root, filepath.Join(t.TempDir(), "gpus"), nil)
	defer daemon.Close()
	const want = "another daemon of this host has them"
	if r := w.run(t, append(slices.Clone(options), "-l", "gpu=1", script)...); r.status != 125 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "execd qsub") {
		t.Errorf("beside a daemon: %+v", r)
	}
	w.gone(t)
	u, root, options := withGPUs(t, asUser)
	daemon = gpu.OpenRegister(root, filepath.Join(t.TempDir(), "gpus"), nil)
	defer daemon.Close()
	if r := u.run(t, append(slices.Clone(options), "-l", "gpu=1", "-b", "y", "true")...); r.status != 0 || strings.Count(r.stderr, "a daemon of root gives the GPUs") != 1 {
		t.Errorf("an ordinary user beside a daemon of root: %+v", r)
	}
}
