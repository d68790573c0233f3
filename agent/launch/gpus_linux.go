package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
)

// ChooseGPUs sets the GPUs of this host, from which PreparePlan chooses GPUCount.
func (p *Plan) ChooseGPUs(of *gpu.Inventory) { p.inventory = of }

// FoundGPUs returns the resource map "gpu" of a host: the GPUs that it offers, with their types and memory. numbers are
// those of all GPUs that the host has or has had.
func FoundGPUs(v *gpu.Inventory, numbers []string) qconf.FoundMap {
	f := qconf.FoundMap{Name: GPUMap, IDs: v.IDs()}
	for _, g := range v.Offered() {
		var of []qconf.Setting
		if g.Type() != "" {
			of = append(of, qconf.Setting{Name: "gpu_type", Value: g.Type()})
		}
		if g.Memory > 0 {
			of = append(of, qconf.Setting{Name: "gpu_mem", Value: strconv.FormatUint(g.Memory>>20, 10) + "M"})
		}
		f.Attributes = append(f.Attributes, of)
	}
	for _, id := range numbers {
		if !slices.Contains(f.IDs, id) {
			f.Gone = append(f.Gone, id)
		}
	}
	return f
}

// GPUError says why a host cannot give a job the GPUs that its master has granted.
type GPUError struct {
	Complex         string
	Want            int
	Offered, Others int // GPUs that the host offers, and those of them that other jobs have
}

func (e *GPUError) Error() string {
	return fmt.Sprintf("the job was granted %s=%d, but this host offers %d GPUs, and other jobs have %d of them: complex_values of the host counts too many",
		e.Complex, e.Want, e.Offered, e.Others)
}

// chooseGPUs chooses GPUs for a job whose master has granted it a number of them, among those that no
// other job of the spool area has: see topology.ChooseDevices. The caller holds Spool.LockJobs for as long
// as the job has no directory.
func (p *Plan) chooseGPUs(spool *jobdir.Spool, cpus topology.CPUSet) error {
	if p.GPUCount == 0 {
		return nil
	}
	used, err := gpusInUse(spool, p.Description.Host)
	if err != nil {
		return fmt.Errorf("cannot determine which GPUs are in use: %w", err)
	}
	offered := p.inventory.Offered()
	if p.among != nil {
		offered = slices.DeleteFunc(offered, func(g gpu.GPU) bool { return !slices.Contains(p.among, g.ID) })
	}
	free := slices.DeleteFunc(slices.Clone(offered), func(g gpu.GPU) bool { return used[g.ID] })
	if len(free) < p.GPUCount {
		return &GPUError{p.GPUComplex, p.GPUCount, len(offered), len(offered) - len(free)}
	}
	t, err := readTopology()
	if err != nil {
		t = topology.Topology{} // then only their PCIe roots count
	}
	var ids []string
	for _, i := range topology.ChooseDevices(devices(t, free), nil, t.With(cpus), p.GPUCount) {
		ids = append(ids, free[i].ID)
	}
	slices.Sort(ids)
	p.SetGPUs(p.inventory, ids)
	sayTrusted(p.Description, ElementPrefix+p.GPUComplex+"="+strings.Join(ids, " "))
	return nil
}

// devices returns where GPUs are on this host.
func devices(t topology.Topology, gpus []gpu.GPU) []topology.Device {
	var list []topology.Device
	for _, g := range gpus {
		d := topology.Device{ID: g.ID, Root: g.Root}
		for _, p := range t.Pairs() {
			if core, _ := t.Core(p); g.NUMA >= 0 && core.Node == g.NUMA {
				d.Near = append(d.Near, p)
			}
		}
		list = append(list, d)
	}
	return list
}

// GPUPlaces returns where GPUs are on this host, as the load value m_topology_gpu; empty for none.
func GPUPlaces(t topology.Topology, gpus []gpu.GPU) string {
	return topology.FormatDevices(t.Shape(), devices(t, gpus))
}

// GPUsInUse returns the numbers of the GPUs that unfinished jobs of another daemon on this host have.
// file is in the spool directory of that daemon. It is a gpu.InUse.
func GPUsInUse(file string) ([]string, error) {
	path := filepath.Dir(file)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was removed with all of its jobs
	}
	spool, err := jobdir.OpenSpool(path)
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	used, err := gpusInUse(spool, "")
	return slices.Sorted(maps.Keys(used)), err
}

// gpusInUse returns the numbers of the GPUs that belong to a job on this host that has not ended.
// host is the name of this host in the descriptions of its jobs; empty for any name.
func gpusInUse(spool *jobdir.Spool, host string) (map[string]bool, error) {
	used := map[string]bool{}
	ids, err := spool.Jobs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		of, err := gpusOf(spool, id, host)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", id, err)
		}
		for _, n := range of {
			used[n] = true
		}
	}
	return used, nil
}

// gpusOf returns the numbers of the GPUs of a job; none if it has ended. A job whose supervisor was
// killed has ended once its remaining processes have, including processes that could not be killed at
// once. Its directory may stay for a while, and the master may already have given its GPUs to another
// job.
func gpusOf(spool *jobdir.Spool, id job.ID, host string) ([]string, error) {
	dir, err := spool.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed meanwhile
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if _, ended, err := dir.ExitStatus(); err == nil && ended || abandoned(dir) {
		return nil, nil
	}
	if left, swept, err := survivors(dir); err != nil || swept && len(left) == 0 {
		return nil, err
	}
	known, err := readOwn(dir)
	if err != nil || known == nil || len(known.gpus) == 0 {
		return nil, err
	}
	if known.boot != "" && known.boot != BootID() {
		return nil, nil // its processes have ended with the host, or it is on another host
	}
	d, err := dir.Description()
	switch {
	case errors.Is(err, jobdir.ErrIncomplete):
		return nil, nil // of a job that is given none: those are made one at a time
	case err != nil:
		return nil, err
	case host != "" && !strings.EqualFold(d.Host, host): // a spool directory that hosts share
		return nil, nil
	}
	return known.gpus, nil
}
