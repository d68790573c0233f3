package scheduler

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// Core binding (qsub(1), -binding). The original leaves it to the hosts: a job whose cores are not
// free runs unbound. If the cluster sets BINDING_AWARE, an extension in params of sched_conf(5), a
// job with a binding is pending until a host has cores for it, and the scheduler chooses the cores.

// hostCores is the state of the cores of a host.
type hostCores struct {
	topology topology.Topology // of m_topology; without sockets if it is unknown
	text     string            // m_topology
	inUse    string            // m_topology_inuse
	reported []topology.Pair   // in use, as the host reports
	// used counts for each core how many users it has: the host's report, and each task.
	used binding.InUse
	free int // unused cores
}

func (h *hostCores) known() bool { return len(h.topology.Sockets) > 0 }

func (h *hostCores) recount() { h.free = h.freeBeside(h.used) }

// freeBeside returns the number of cores that used does not contain.
func (h *hostCores) freeBeside(used binding.InUse) int {
	n := h.topology.NumCores()
	for p := range used {
		if _, ok := h.topology.Core(p); ok {
			n--
		}
	}
	return n
}

// newHostCores returns nil if bindings are left to the hosts.
func newHostCores(m *Model) []hostCores {
	if !m.bindingAware {
		return nil
	}
	cores := make([]hostCores, len(m.hosts))
	for i := range cores {
		cores[i].used = binding.InUse{}
	}
	return cores
}

// The load values about cores (sge_execd(8)).
const (
	loadTopology      = "m_topology"
	loadTopologyInUse = "m_topology_inuse"
)

// setTopology reads the cores of a host from its load values. Invalid values count as not reported.
func (s *State) setTopology(id HostID, values map[string]string) (problems []error) {
	if s.cores == nil || id == GlobalHost {
		return nil
	}
	h := &s.cores[id]
	text, inUse := values[loadTopology], values[loadTopologyInUse]
	if text == h.text && inUse == h.inUse {
		return nil
	}
	problem := func(name string, err error) {
		problems = append(problems, fmt.Errorf("load value %s of host %s: %w", name, s.model.HostName(id), err))
	}
	h.text, h.inUse = text, inUse
	shape, err := topology.ParseShape(text)
	if err != nil {
		problem(loadTopology, err)
	}
	h.topology = topologyOf(shape)
	h.used.Remove(h.reported)
	h.reported = nil
	busy, err := topology.ParseShape(inUse)
	switch {
	case err != nil:
		problem(loadTopologyInUse, err)
	case h.known() && len(busy) > 0 && !busy.SameHost(shape):
		problem(loadTopologyInUse, fmt.Errorf("%q is another topology than %q", inUse, text))
	case h.known():
		h.reported = busy.InUse()
	}
	h.used.Add(h.reported)
	h.recount()
	return problems
}

// topologyOf returns the topology of a host with these cores, without the numbers of their
// processors.
func topologyOf(shape topology.Shape) topology.Topology {
	var t topology.Topology
	for id, cores := range shape {
		t.Sockets = append(t.Sockets, topology.Socket{ID: id, Cores: make([]topology.Core, len(cores))})
	}
	return t
}

// bookCores marks the cores of a task as in use, or frees them.
func (s *State) bookCores(grants []Grant, sign int) {
	if s.cores == nil {
		return
	}
	for _, g := range grants {
		if len(g.Cores) == 0 {
			continue
		}
		h := &s.cores[s.model.instances[g.Instance].host]
		if sign > 0 {
			h.used.Add(g.Cores)
		} else {
			h.used.Remove(g.Cores)
		}
		h.recount()
	}
}

// binds reports whether the scheduler must find cores for jobs of a category.
func (c *Category) binds() bool {
	return c.model.bindingAware && c.requests.Binding.Strategy != binding.None
}

// coresFor returns for how many slots, up to most, a host has the cores that a job requests. Each
// host must have the amount of the request (sge_submit(1), -binding); linear without an amount
// takes a core for each slot. A host that reports no topology cannot bind, and is not limited.
func (m *matcher) coresFor(q *query, id HostID, most int) int {
	c := q.category
	if most <= 0 || !c.binds() || !m.cores[id].known() {
		return most
	}
	h, request := &m.cores[id], &c.requests.Binding
	used, free := m.coresInUse(id, q.span), m.cores[id].free
	if m.empty || m.plan != nil {
		free = h.freeBeside(used)
	}
	n := most
	anywhere := request.Strategy == binding.Linear && !request.HasStart
	switch {
	case request.Slots && anywhere:
		n = min(most, free)
	case request.Slots:
		n = sort.Search(min(most, free), func(slots int) bool { return !h.fits(used, request, slots+1) })
	case request.Strategy != binding.Explicit && request.Amount > free:
		n = 0
	case anywhere && request.Amount > 0:
	case !h.fits(used, request, 1):
		n = 0
	}
	if n == 0 {
		m.misfit(q, id, used)
	}
	return n
}

func (h *hostCores) fits(used binding.InUse, request *binding.Request, slots int) bool {
	_, err := binding.Choose(h.topology, used, *request, slots)
	return err == nil
}

// misfit adds the reason that the cores of a host do not suit a job.
func (m *matcher) misfit(q *query, id HostID, used binding.InUse) {
	if q.trace == nil {
		return
	}
	h := &m.cores[id]
	shape, _ := topology.ParseShape(h.text) // valid: setTopology has parsed it
	q.because(Reason{
		kind: noCores, place: int32(id), text: shape.With(used.Has).String(),
		reserved: m.plan != nil && h.fits(h.used, &q.category.requests.Binding, 1),
	})
}

// coresText returns the text about the cores that a job lacks.
func (r *Reason) coresText() string {
	request := strings.TrimPrefix(r.category.requests.Binding.String(), binding.Set.String()+" ")
	text := fmt.Sprintf("cannot run at host %q because its binding %s does not fit the free cores %s", r.model.HostName(HostID(r.place)), request, r.text)
	if r.reserved {
		text += " due to a reservation"
	}
	return text
}

// giveCores chooses the cores of a task on each of its hosts. The first grant of a host gets all
// cores of that host.
func (m *matcher) giveCores(c *Category, grants []Grant, at span) {
	if !c.binds() {
		return
	}
	for i := range grants {
		host := m.model.instances[grants[i].Instance].host
		same := func(g Grant) bool { return m.model.instances[g.Instance].host == host }
		if slices.ContainsFunc(grants[:i], same) || !m.cores[host].known() {
			continue
		}
		slots := 0
		for _, g := range grants[i:] {
			if same(g) {
				slots += g.Slots
			}
		}
		// The search has checked that the host has these cores, so there can be no error.
		b, _ := binding.Choose(m.cores[host].topology, m.coresInUse(host, at), c.requests.Binding, slots)
		grants[i].Cores = b.Cores
	}
}

// coresInUse returns the cores of a host that are in use during a time span.
func (m *matcher) coresInUse(id HostID, at span) binding.InUse {
	switch {
	case m.empty:
		return nil
	case m.plan == nil:
		return m.cores[id].used
	}
	used := binding.InUse{}
	if at.start <= m.now {
		for p := range m.cores[id].used {
			used[p]++
		}
	}
	for _, b := range m.plan.cores[id] {
		if b.from < at.until() && at.start < b.until {
			used.Add(b.cores)
		}
	}
	return used
}

// FreeCores returns the topology of a host with the cores in use in lower case. ok is false if
// bindings are left to the hosts, or if the cores of the host are unknown.
func (s *State) FreeCores(id HostID) (shape topology.Shape, ok bool) {
	if id == GlobalHost || s.cores == nil || !s.cores[id].known() {
		return nil, false
	}
	h := &s.cores[id]
	shape, _ = topology.ParseShape(h.text)
	return shape.With(h.used.Has), true
}
