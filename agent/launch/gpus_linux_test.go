package launch

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestGPUsOfAKilledJobAreFree: the GPUs of a job whose supervisor was killed can be chosen again as
// soon as its processes have been ended, even if its directory still exists.
func TestGPUsOfAKilledJobAreFree(t *testing.T) {
	p := newPlace(t)
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA A40", UUID: "GPU-1", Minor: 0})
	register := gpu.OpenRegister(root, p.dir+"/gpus")
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

func isGPUError(err error) bool {
	_, ok := errors.AsType[*GPUError](err)
	return ok
}
