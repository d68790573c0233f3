package scheduler

import (
	"fmt"
	"slices"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// The devices of a host, such as GPUs, are elements of resource maps. A host reports where they are
// (m_topology_gpu), and a task gets those near its cores.

// hostDevices are the devices of a host and its cores.
type hostDevices struct {
	of       [3]string // the load values
	topology topology.Topology
	devices  map[string]topology.Device
	used     binding.InUse // the cores in use, as the host reports
	// expected are the cores that the host will probably choose for tasks that have started since its
	// last report. They only decide which devices other tasks get, so a wrong one does no harm.
	expected binding.InUse
}

// loadTopologyDevices is the load value with the places of a host's GPUs (execd-loadsensor(7)), and
// deviceMap their resource map.
const (
	loadTopologyDevices = "m_topology_gpu"
	deviceMap           = "gpu"
)

// hasDevices reports whether a resource map can have devices that cores are near to.
func (m *Model) hasDevices() bool {
	id, ok := m.attributeOf[deviceMap]
	return ok && m.attributes[id].resourceMap
}

// setDevices reads the places of devices from the load values of a host.
func (s *State) setDevices(id HostID, values map[string]string) (problems []error) {
	of := [3]string{values[loadTopology], values[loadTopologyInUse], values[loadTopologyDevices]}
	if of[2] == "" || id == GlobalHost {
		delete(s.devices, id)
		return nil
	}
	if h := s.devices[id]; h != nil && h.of == of {
		return nil
	}
	shape, err := topology.ParseShape(of[0])
	if err != nil {
		shape = nil // setTopology has the problem
	}
	list, err := topology.ParseDevices(shape, of[2])
	if err != nil {
		problems = append(problems, fmt.Errorf("load value %s of host %s: %w", loadTopologyDevices, s.model.HostName(id), err))
	}
	h := &hostDevices{of: of, topology: topologyOf(shape), devices: map[string]topology.Device{}, used: binding.InUse{}, expected: binding.InUse{}}
	if busy, err := topology.ParseShape(of[1]); err == nil && busy.SameHost(shape) {
		h.used.Add(busy.InUse())
	}
	for _, d := range list {
		h.devices[d.ID] = d
	}
	if s.devices == nil {
		s.devices = map[HostID]*hostDevices{}
	}
	s.devices[id] = h
	return problems
}

// nearest chooses some of the free elements of a place's map, by their indexes.
func (s *State) nearest(c *Category, grants []Grant, p Place, a AttributeID, names []string, free []int, want int) []int {
	h := s.devicesAt(p, a)
	if len(free) <= want || h == nil && want == 1 {
		return free[:min(want, len(free))]
	}
	var cores []topology.Pair
	list := make([]topology.Device, len(free))
	if h != nil {
		cores = s.coresOf(h, c, grants, HostID(p.index))
	}
	device := func(id string) topology.Device {
		if h != nil {
			if d, ok := h.devices[id]; ok {
				return d
			}
		}
		return topology.Device{ID: id}
	}
	for k, i := range free {
		list[k] = device(names[i])
	}
	var has []topology.Device
	for _, g := range grants {
		for _, t := range g.Elements {
			if t.At == p && t.Attribute == a {
				for _, id := range t.IDs {
					has = append(has, device(id))
				}
			}
		}
	}
	// More elements than a host has devices are numbers or licences.
	const most = 4096
	if len(list) > most {
		return free[:want]
	}
	chosen := topology.ChooseDevices(list, has, cores, want)
	for k, i := range chosen {
		chosen[k] = free[i]
	}
	slices.Sort(chosen)
	return chosen
}

// devicesAt returns the devices of a host if a resource map of that place has them.
func (s *State) devicesAt(p Place, a AttributeID) *hostDevices {
	if p.layer != atHost || s.model.attributes[a].Name != deviceMap {
		return nil
	}
	return s.devices[HostID(p.index)]
}

// coresOf returns the cores that a task gets on a host: those that it was granted, or else those that the
// host will choose, as far as that is known.
func (s *State) coresOf(h *hostDevices, c *Category, grants []Grant, id HostID) []topology.Pair {
	slots := 0
	for _, g := range grants {
		if s.model.instances[g.Instance].host == id {
			if len(g.Cores) > 0 {
				return g.Cores
			}
			slots += g.Slots
		}
	}
	request := c.requests.Binding
	if request.Strategy == binding.None || len(h.topology.Sockets) == 0 {
		return nil
	}
	used := binding.InUse{}
	for _, u := range []binding.InUse{h.used, h.expected} {
		for p, n := range u {
			used[p] += n
		}
	}
	b, err := binding.Choose(h.topology, used, request, slots)
	if err != nil {
		return nil // the task will not be bound
	}
	return b.Cores
}

// expectCores notes the cores that hosts will choose for a task that starts.
func (s *State) expectCores(c *Category, grants []Grant) {
	if len(s.devices) == 0 || c.requests.Binding.Strategy == binding.None {
		return
	}
	var done []HostID
	for _, g := range grants {
		id := s.model.instances[g.Instance].host
		if h := s.devices[id]; h != nil && !slices.Contains(done, id) {
			done = append(done, id)
			h.expected.Add(s.coresOf(h, c, grants, id))
		}
	}
}
