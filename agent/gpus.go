package agent

import (
	"maps"
	"slices"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// gpus returns the GPUs of this host; nil for none.
func (a *Agent) gpus() *gpu.Inventory {
	if a.options.GPUs == nil {
		return nil
	}
	return a.options.GPUs()
}

// gpusFor returns the GPUs that jobs can be granted, and otherwise cannot open, under a
// configuration. It is nil if the site manages them itself: it has another complex of this name, or
// other IDs in the map of this host.
func (a *Agent) gpusFor(c *qconf.Cluster) *gpu.Inventory {
	v := a.gpus()
	x, ok := c.Complexes().Find(launch.GPUMap)
	if !v.Numbered() || ok && x.Type != qconf.ComplexRSMap {
		return nil
	}
	h, err := c.Host(a.options.Host)
	if err != nil {
		return v
	}
	for _, s := range c.Complexes().Canonical(h.ComplexValues) {
		if s.Name != launch.GPUMap {
			continue
		}
		if m, err := qconf.ParseResourceMap(s.Value); err == nil && slices.ContainsFunc(m.IDs, func(id string) bool { return !v.Known(id) }) {
			return nil
		}
	}
	return v
}

// addGPUs adds the GPUs of the host and their problems to its health. The caller holds the lock of the table.
func (a *Agent) addGPUs(h *Health) {
	v := a.gpus()
	if v == nil {
		return
	}
	h.Troubles = append(h.Troubles, v.Problems...)
	jobs := map[string][]job.ID{}
	for _, e := range a.table.jobs {
		if e.run == nil || !e.state.Live() {
			continue
		}
		for _, id := range e.gpus() {
			jobs[id] = append(jobs[id], e.id)
		}
	}
	for _, id := range v.Lacking(slices.Sorted(maps.Keys(jobs))) {
		if !v.Known(id) {
			continue // an ID of the site's own
		}
		for _, j := range jobs[id] {
			h.Troubles = append(h.Troubles, "job "+j.String()+" has GPU "+id+", which is missing")
		}
	}
	for _, g := range v.GPUs {
		if !g.Integrated {
			h.GPUs = append(h.GPUs, GPU{GPU: g, Jobs: jobs[g.ID]})
		}
	}
}

// gpus returns the numbers of the GPUs that a job has on this host.
func (e *entry) gpus() []string {
	if e.parent != nil {
		return e.parent.gpus()
	}
	if list := e.run.GPUs(); list != nil {
		return list
	}
	// The launcher of a daemon of two processes has them; the master has granted the same.
	var list []string
	for _, g := range e.record.Grants {
		list = append(list, g.Names[launch.GPUMap]...)
	}
	return list
}

// RestrictGPUs keeps running jobs from GPUs that have appeared since the jobs were started. Call it
// when the GPUs of the host have changed, before Configure offers new ones to jobs.
func (a *Agent) RestrictGPUs() {
	v := a.gpusFor(a.Cluster())
	if !v.Numbered() {
		return
	}
	a.table.mu.Lock()
	var list []*entry
	for _, e := range a.table.jobs {
		if e.run != nil && e.state.Live() {
			list = append(list, e)
		}
	}
	a.table.mu.Unlock()
	for _, e := range list {
		e.do.Lock()
		err := error(nil)
		if a.table.state(e).Live() { // then its directory is open
			err = e.run.Restrict(v, e.gpus())
		}
		e.do.Unlock()
		if err != nil {
			a.log.Warn("cannot keep a job from GPUs that have appeared since its start", "job", e.id.String(), "error", err)
		}
	}
}
