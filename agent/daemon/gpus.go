package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
)

// gpuFile is the path of the file with the numbers of GPUs, below the spool directory.
const gpuFile = "gpus"

// lookInterval is the time between two checks for added or removed GPUs. A check reads some files of
// the kernel.
const lookInterval = time.Minute

// gpuRegister knows the GPUs of this host: a *gpu.Register, or the *launcher.GPUs of a front.
type gpuRegister interface {
	Inventory() *gpu.Inventory
	Numbers() []string
	Wants() bool
	Refresh() (changed bool)
	Ask(ctx context.Context) (changed bool)
	Close()
}

// openGPUs finds the GPUs of this host.
func (d *daemon) openGPUs(ctx context.Context) error {
	switch {
	case d.gridengine && d.gpuComplex == "":
		return nil
	case d.isFront():
		gpus, err := d.client.GPUs()
		if err != nil {
			return err
		}
		d.gpus = gpus
	default:
		d.gpus = gpu.OpenRegister(d.gpuRoot, filepath.Join(d.settings.spool, gpuFile), launch.GPUsInUse)
	}
	if d.gpus.Wants() {
		// This is for a host whose devices have never been listed; later the list is in the file.
		d.gpus.Ask(ctx)
	}
	if !d.gridengine {
		d.configuration.found = d.foundGPUs
	}
	d.sayGPUs(nil)
	return nil
}

// foundGPUs returns the resource map that the host has found.
func (d *daemon) foundGPUs() qconf.FoundMap {
	return launch.FoundGPUs(d.gpus.Inventory(), d.gpus.Numbers())
}

// inventory returns the GPUs of this host; nil for none.
func (d *daemon) inventory() *gpu.Inventory {
	if d.gpus == nil {
		return nil
	}
	return d.gpus.Inventory()
}

// gpuPlaces returns where the offered GPUs are, as a load value for the scheduler of the master. A real
// sge_qmaster does not choose GPUs.
func (d *daemon) gpuPlaces(t topology.Topology) string {
	if d.gridengine {
		return ""
	}
	return launch.GPUPlaces(t, d.inventory().Offered())
}

// measureGPUs measures GPUs of jobs.
func (d *daemon) measureGPUs(ctx context.Context, ids []string) (map[string]gpu.Sample, error) {
	return gpu.Measure(ctx, d.gpuRoot, d.inventory(), ids)
}

// sayGPUs logs changes of the list of GPUs, and problems with GPUs.
func (d *daemon) sayGPUs(before *gpu.Inventory) {
	log, now := d.logOf("agent"), d.inventory()
	for _, g := range now.GPUs {
		known := before != nil && slices.ContainsFunc(before.GPUs, func(x gpu.GPU) bool {
			return x.Address == g.Address && x.Instance == g.Instance && x.ID == g.ID && x.Problem == g.Problem
		})
		switch {
		case known || g.Integrated:
		case g.ID == "":
			log.Warn("a GPU is not offered", "gpu", g.String(), "reason", g.Problem)
		default:
			log.Info("a GPU is offered", "gpu", g.String(), "uuid", g.UUID, "problem", g.Problem)
		}
	}
	for _, p := range now.Problems {
		if before == nil || !slices.Contains(before.Problems, p) {
			log.Warn("GPUs", "problem", p)
		}
	}
}

// lookForGPUs checks for added and removed GPUs at intervals until the context ends.
func (d *daemon) lookForGPUs(ctx context.Context) {
	if d.gpus == nil {
		return
	}
	d.agent.RestrictGPUs() // jobs of an earlier daemon
	timer := time.NewTicker(lookInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			d.refreshGPUs(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// refreshGPUs checks once, and reloads the configuration if the offered GPUs have changed.
func (d *daemon) refreshGPUs(ctx context.Context) {
	if d.gpus == nil {
		return
	}
	before := d.inventory()
	changed := d.gpus.Refresh()
	if d.gpus.Wants() {
		changed = d.gpus.Ask(ctx) || changed
	}
	d.agent.RestrictGPUs() // also jobs whose start overlapped with the last change
	if !changed {
		return
	}
	d.sayGPUs(before)
	d.reload(reader{command: "gpus", caller: audit.Caller{Via: "host"}})
}

// withFound adds the devices found on the host to a configuration and to its version.
func (c *configuration) withFound(cluster *qconf.Cluster, version string) (*qconf.Cluster, string, error) {
	if c.found == nil {
		return cluster, version, nil
	}
	found := c.found()
	changed, err := cluster.WithFoundMap(c.host, found)
	if err != nil || changed == cluster {
		return cluster, version, err
	}
	sum := sha256.Sum256(fmt.Append(nil, found))
	const digits = 6
	return changed, version + "+gpu." + hex.EncodeToString(sum[:])[:digits], nil
}

// withoutFound removes the devices found on this host from its edited text: otherwise they would
// stay after the devices change.
func (c *configuration) withoutFound(files map[string][]byte) map[string][]byte {
	if c.found == nil {
		return files
	}
	changed := map[string][]byte{}
	for path, text := range files {
		changed[path] = text
		name, ok := strings.CutPrefix(path, "hosts/")
		if !ok || text == nil || !qconf.SameHost(name, c.host) {
			continue
		}
		h, err := qconf.ParseHost(path, text)
		if err != nil {
			continue // it will be refused unchanged
		}
		if h, err = h.WithoutFoundMap(c.found()); err == nil {
			changed[path] = []byte(h.Format(qconf.Wrapped))
		}
	}
	return changed
}
