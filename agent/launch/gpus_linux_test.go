package launch

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestGPUsOfAKilledJobAreFree checks that the GPUs of a job whose supervisor was killed can be chosen
// again as soon as its processes have been ended, even if its directory still exists.
func TestGPUsOfAKilledJobAreFree(t *testing.T) {
	p := newPlace(t)
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA A40", UUID: "GPU-1", Minor: 0})
	register := gpu.OpenRegister(root, p.dir+"/gpus", nil)
	defer register.Close()
	inventory := register.Inventory()
	prepare := func(number int) (*Job, error) {
		o, err := p.order("sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		o.GPUs, o.GPUCount, o.GPUComplex = inventory, 1, "gpu"
		j, err := Prepare(p.spool, o, job.ID{Job: number})
		if err == nil {
			t.Cleanup(func() { _ = j.Remove(false) })
		}
		return j, err
	}
	first, err := prepare(7)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, first)
	if _, err := prepare(8); !isGPUError(err) {
		t.Fatalf("the GPU of a running job: %v", err)
	}
	if err := unix.Kill(first.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.Collect(waited(t, first))
	if _, err := prepare(8); err != nil {
		t.Errorf("the GPU of a job that has ended: %v", err)
	}
}

// TestGPUsOfSurvivors gives the supervisor of a job no time to end: while a process of it survives, its
// GPU is in use, for other jobs of this daemon and for another daemon.
func TestGPUsOfSurvivors(t *testing.T) {
	p := newPlace(t)
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA A40", UUID: "GPU-1", Minor: 0})
	register := gpu.OpenRegister(root, p.dir+"/gpus", nil)
	defer register.Close()
	o := must(p.order(spread(p.dir + "/out")))
	o.GPUs, o.GPUCount, o.GPUComplex = register.Inventory(), 1, "gpu"
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Remove(false) }()
	launched(t, j)
	var pids []int
	for _, name := range []string{"first", "session", "inner"} {
		pids = append(pids, pidIn(t, p.dir+"/out/"+name))
	}
	j.Destroy()
	waited(t, j)
	j.endMarkedOnce(0)
	left, swept, err := survivors(j.Dir)
	if len(left) == 0 || !swept || err != nil {
		t.Fatalf("surviving are %v, %t, %v", left, swept, err)
	}
	inUse := func(want bool) {
		t.Helper()
		used, err := gpusInUse(p.spool, "")
		others, err2 := GPUsInUse(p.spool.Path() + "/gpus")
		if err != nil || err2 != nil || used["0"] != want || (len(others) == 1) != want {
			t.Errorf("in use are %v and %v, want it %t (%v, %v)", used, others, want, err, err2)
		}
	}
	inUse(true)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	until(t, "the end of the processes", func() bool { return !alive(pids[0]) && !alive(pids[1]) && !alive(pids[2]) })
	inUse(false)
	if err := j.Dir.WriteFile(fileSwept, []byte("nonsense\n")); err != nil {
		t.Fatal(err)
	}
	if used, err := gpusInUse(p.spool, ""); err == nil {
		t.Errorf("a file that cannot be read: %v", used)
	}
}

func isGPUError(err error) bool {
	_, ok := errors.AsType[*GPUError](err)
	return ok
}
