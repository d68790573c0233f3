package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
)

// daemons are two daemons on one host, and their jobs, which outlive them.
type daemons struct {
	t     *testing.T
	root  string
	files [2]string
	open  [2]*gpu.Register // nil while a daemon does not run
	jobs  []gpuJob
	gone  map[string]bool    // addresses of GPUs that were removed
	parts []testenv.Instance // of the H100
	trace []string
}

type gpuJob struct {
	daemon                int
	id, address, instance string
}

// shares reports whether two jobs have the same hardware.
func (j gpuJob) shares(x gpuJob) bool {
	return j.address == x.address && (j.instance == x.instance || j.instance == "" || x.instance == "")
}

func (d *daemons) has(daemon int, id string) bool {
	return slices.ContainsFunc(d.jobs, func(j gpuJob) bool { return j.daemon == daemon && j.id == id })
}

// inUse is the gpu.InUse of both.
func (d *daemons) inUse(file string) ([]string, error) {
	var list []string
	for _, j := range d.jobs {
		if d.files[j.daemon] == file {
			list = append(list, j.id)
		}
	}
	return list, nil
}

// step does something by chance.
func (d *daemons) step(r *rand.Rand) {
	i := r.IntN(2)
	note := func(format string, args ...any) { d.trace = append(d.trace, fmt.Sprintf(format, args...)) }
	switch n := r.IntN(11); {
	case n == 0 && d.open[i] != nil: // killed or stopped: the kernel releases the lock in both cases
		note("daemon %d ends", i)
		d.open[i].Close()
		d.open[i] = nil
	case n < 3 && d.open[i] == nil:
		note("daemon %d starts", i)
		d.open[i] = gpu.OpenRegister(d.root, d.files[i], d.inUse)
	case n < 5 && d.open[i] != nil:
		note("daemon %d looks", i)
		d.open[i].Refresh()
		if d.open[i].Wants() {
			d.open[i].Ask(d.t.Context())
		}
	case n < 8 && d.open[i] != nil:
		v := d.open[i].Inventory()
		for _, g := range v.Offered() {
			if !d.has(i, g.ID) {
				note("daemon %d grants GPU %s, %s", i, g.ID, g.Address)
				d.jobs = append(d.jobs, gpuJob{i, g.ID, g.Address, g.Instance})
				break
			}
		}
	case n == 8 && len(d.jobs) > 0:
		k := r.IntN(len(d.jobs))
		note("a job of daemon %d with GPU %s ends", d.jobs[k].daemon, d.jobs[k].id)
		d.jobs = slices.Delete(d.jobs, k, k+1)
	case n == 9:
		g := []testenv.GPU{h100, mi, arc}[r.IntN(3)]
		d.gone[g.Address] = !d.gone[g.Address]
		note("GPU %s is gone: %t", g.Address, d.gone[g.Address])
		if !d.gone[g.Address] {
			testenv.GPUs(d.t, d.root, g)
			d.divide()
			return
		}
		for _, dir := range []string{"proc/driver/nvidia/gpus", "sys/bus/pci/devices", "sys/class/kfd/kfd/topology/nodes"} {
			if g.Vendor != "amd" && filepath.Base(dir) == "nodes" {
				continue
			}
			path := filepath.Join(d.root, dir, g.Address)
			if filepath.Base(dir) == "nodes" {
				path = filepath.Join(d.root, dir)
			}
			if err := os.RemoveAll(path); err != nil {
				d.t.Fatal(err)
			}
		}
	case n == 10:
		d.parts = [][]testenv.Instance{nil, {small}, {small, large}}[r.IntN(3)]
		note("the H100 has %d MIG instances", len(d.parts))
		d.divide()
	}
}

func (d *daemons) divide() {
	testenv.MIG(d.t, d.root, testenv.Divided{GPU: h100, MiB: 81559, Instances: d.parts})
}

// TestNoTwoDaemonsShareGPU starts and kills two daemons of a host in any order, while their jobs
// start and finish, and GPUs disappear and return, and one is divided into MIG instances and united: no two jobs ever
// have the same GPU, and no job has a GPU of which another one has an instance.
func TestNoTwoDaemonsShareGPU(t *testing.T) {
	granted, parts := [2]int{}, 0
	for seed := range uint64(8) {
		root, _ := hostWith(t, h100, mi, arc)
		d := &daemons{t: t, root: root, gone: map[string]bool{}, files: [2]string{root + "/first/gpus", root + "/second/gpus"}}
		for _, f := range d.files {
			if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		r := rand.New(rand.NewPCG(seed, 1))
		for range 150 {
			before := len(d.jobs)
			d.step(r)
			if len(d.jobs) > before {
				granted[d.jobs[before].daemon]++
				if d.jobs[before].instance != "" {
					parts++
				}
			}
			for k, j := range d.jobs {
				if slices.ContainsFunc(d.jobs[:k], j.shares) {
					t.Fatalf("seed %d: two jobs have the GPU at %s: %v\n%q", seed, j.address, d.jobs, d.trace)
				}
			}
		}
		for _, x := range d.open {
			x.Close()
		}
	}
	if granted[0] == 0 || granted[1] == 0 || parts == 0 {
		t.Errorf("the daemons have given %v GPUs, of which %d are MIG instances", granted, parts)
	}
	t.Attr("granted", fmt.Sprint(granted, parts))
}
