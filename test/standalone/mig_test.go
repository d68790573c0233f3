package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

var (
	smallInstance = testenv.Instance{GI: 1, UUID: "MIG-22222222-aaaa-bbbb-cccc-000000000001", Profile: "1g.10gb", MiB: 9984}
	largeInstance = testenv.Instance{GI: 5, UUID: "MIG-22222222-aaaa-bbbb-cccc-000000000005", Profile: "3g.40gb", MiB: 40448}
)

// TestMIG offers the MIG instances of a GPU: a job gets one by its type or memory, finds it in its variables, and can open
// its devices and no others of the GPU.
func TestMIG(t *testing.T) { instancesOfJobs(t) }

// TestFrontMIG does so with a daemon of two processes.
func TestFrontMIG(t *testing.T) { instancesOfJobs(t, "--front-user", frontUser) }

func instancesOfJobs(t *testing.T, options ...string) {
	t.Helper()
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Cgroup)
	m := withGPUs(t, twoNVIDIA...)
	m.args = append(m.args, options...)
	divide := func(instances ...testenv.Instance) {
		testenv.MIG(t, m.gpuRoot(), testenv.Divided{GPU: twoNVIDIA[0], MiB: 81559, Instances: instances}, testenv.Divided{GPU: twoNVIDIA[1], MiB: 46068})
	}
	divide(smallInstance, largeInstance)
	nodes := []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}
	for i, number := range [][2]int{{195, 0}, {195, 1}, {195, 255}, {511, 0}} {
		testenv.Node(t, filepath.Join(m.gpuRoot(), "dev", nodes[i]), number[0], number[1])
	}
	for _, minor := range []int{1, 2, 12, 13, 48, 49} {
		name := fmt.Sprintf("nvidia-cap%d", minor)
		testenv.Node(t, filepath.Join(m.gpuRoot(), "dev", name), 236, minor)
		nodes = append(nodes, name)
	}
	alice := someUsers(t, 1)[0]
	out := m.open("out")
	m.start()
	offers := func(want string) {
		t.Helper()
		m.until("the host offers "+want, func() bool {
			text := m.root("qconf", "-se", hostName).stdout
			return strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "\\", "")), " "), want)
		})
	}
	offers("gpu=3(0.1.0[gpu_type=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb;gpu_mem=9984M] " +
		"0.5.0[gpu_type=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb;gpu_mem=40448M] 1[gpu_type=NVIDIA-A40;gpu_mem=46068M])")
	m.write("job.sh", "#!/bin/sh\nenv >"+out+"/env.$JOB_ID\nfor d in "+strings.Join(nodes, " ")+"; do\n"+
		"  LC_ALL=C cat "+m.gpuRoot()+"/dev/$d 2>&1 | grep -q 'No such device' && echo $d\ndone >"+out+"/opened.$JOB_ID\n"+
		"while [ -e "+out+"/wait.$JOB_NAME ]; do sleep 0.05; done\n")
	submit := func(name, requests string) string {
		return m.submitted(m.as(alice, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null", "-N", name, "-l", requests, filepath.Join(m.dir, "job.sh")))
	}
	has := func(id, ids, uuids, opened string) {
		t.Helper()
		want := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + uuids, "NVIDIA_VISIBLE_DEVICES=" + uuids, "SGE_HGR_gpu=" + ids}
		text, err := os.ReadFile(filepath.Join(out, "env."+id))
		if got := seen(string(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("the job has %q, want %q (%v)", got, want, err)
		}
		text, err = os.ReadFile(filepath.Join(out, "opened."+id))
		if got := strings.Join(strings.Fields(string(text)), " "); err != nil || got != opened {
			t.Errorf("the job can open %s, want %s (%v)", got, opened, err)
		}
	}
	for _, c := range []struct{ requests, ids, uuids, opened string }{
		{"gpu=1", "0.1.0", smallInstance.UUID, "nvidia0 nvidiactl nvidia-uvm nvidia-cap2 nvidia-cap12 nvidia-cap13"},
		{"gpu=1,gpu_mem=20G,gpu_type=*MIG*", "0.5.0", largeInstance.UUID, "nvidia0 nvidiactl nvidia-uvm nvidia-cap2 nvidia-cap48 nvidia-cap49"},
		{"gpu=2,gpu_mem=20G", "0.5.0 1", largeInstance.UUID + "," + twoNVIDIA[1].UUID, "nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-cap2 nvidia-cap48 nvidia-cap49"},
		{"gpu=1,gpu_type=*A40*", "1", twoNVIDIA[1].UUID, "nvidia1 nvidiactl nvidia-uvm nvidia-cap2"},
	} {
		id := submit("job", c.requests)
		m.until("job "+id+" has left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
		has(id, c.ids, c.uuids, c.opened)
	}
	// A job keeps its instance over a restart, and while it runs the GPU is not offered as a whole.
	if err := os.WriteFile(filepath.Join(out, "wait.long"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	id := submit("long", "gpu=1,gpu_type=*MIG-3g*")
	m.until("it runs", func() bool { _, err := os.Stat(filepath.Join(out, "opened."+id)); return err == nil })
	m.daemon.Kill()
	m.start()
	m.until("the status names its job", func() bool {
		return strings.Contains(m.root("../execd", "status").stdout, "gpu            0.5.0: NVIDIA H100 80GB HBM3 MIG 3g.40gb, 0000:41:00.0, 40448 MiB, job "+id+"\n")
	})
	if text := m.root("../execd", "status").stdout; !strings.Contains(text, "gpu            not offered: NVIDIA H100 80GB HBM3, 0000:41:00.0, 81559 MiB; it is in MIG mode: its instances are offered instead\n") {
		t.Errorf("the status is\n%s", text)
	}
	if text := m.root("../execd", "doctor", "--gpu-root", m.gpuRoot()).stdout; !strings.Contains(text, "0000:41:00.0 NVIDIA H100 80GB HBM3, in MIG mode") ||
		!strings.Contains(text, "0000:41:00.0 NVIDIA H100 80GB HBM3 MIG instance 5.0\n") {
		t.Errorf("the doctor says\n%s", text)
	}
	divide()
	for _, want := range []string{"after the next check", "when no job has GPU 0.5.0 any more"} {
		if err := unix.Kill(m.daemon.Pid(), unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		m.until("the status says "+want, func() bool { return strings.Contains(m.root("../execd", "status").stdout, want) })
	}
	offers("gpu=1(1[")
	if err := os.Remove(filepath.Join(out, "wait.long")); err != nil {
		t.Fatal(err)
	}
	m.until("job "+id+" has left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	if err := unix.Kill(m.daemon.Pid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	offers("gpu=2(0[gpu_type=NVIDIA-H100-80GB-HBM3;gpu_mem=81559M] 1[")
}
