package topology

// Topology holds the usable processors of a host by logical numbers: the socket number is the index
// in Sockets, the core number is the index in Cores.
type Topology struct {
	Sockets []Socket

	// Nodes are the memory nodes with usable processors, in the order of their IDs. It is empty if
	// the kernel has no NUMA support or hides it.
	Nodes []Node

	// Possible holds the processors that the kernel can bring online, Online those that are online
	// now. Processors that may not be used (offline, or outside the container) are in no Core.
	Possible, Online CPUSet

	// Guessed is true if sysfs shows no topology at all, as in some containers: each processor then
	// counts as a core of a single socket.
	Guessed bool
}

// Socket is one processor package.
type Socket struct {
	ID    int // physical_package_id; -1 if the machine has none
	Cores []Core
}

// Core is one core; jobs are bound to whole cores.
type Core struct {
	ID   int    // core_id, neither consecutive nor unique on a host; -1 for none
	CPUs CPUSet // the operating system's numbers of its usable threads
	Node int    // ID of its memory node, -1 for none
	// L2 and L3 are the usable processors that share the core's caches of these levels; empty if
	// unknown.
	L2, L3 CPUSet
}

// Node is one memory node.
type Node struct {
	ID   int
	CPUs CPUSet // usable processors only
	// Mems are the IDs of the nodes whose memory is local to this node. If this node has memory,
	// these are the node itself, and nodes without processors for which it is the nearest.
	// Otherwise these are the nearest nodes with memory. A cpuset accepts only nodes that have
	// memory.
	Mems CPUSet
}

// Core returns the core with logical numbers p, and whether it exists.
func (t Topology) Core(p Pair) (Core, bool) {
	if p.Socket < 0 || p.Socket >= len(t.Sockets) || p.Core < 0 || p.Core >= len(t.Sockets[p.Socket].Cores) {
		return Core{}, false
	}
	return t.Sockets[p.Socket].Cores[p.Core], true
}

// Pairs returns all cores in ascending order. This is the order of "successive" cores across
// sockets.
func (t Topology) Pairs() []Pair {
	var pairs []Pair
	for s, socket := range t.Sockets {
		for c := range socket.Cores {
			pairs = append(pairs, Pair{s, c})
		}
	}
	return pairs
}

// NumSockets returns the load value m_socket.
func (t Topology) NumSockets() int { return len(t.Sockets) }

// NumCores returns the load value m_core: the number of cores of all sockets.
func (t Topology) NumCores() int {
	n := 0
	for _, s := range t.Sockets {
		n += len(s.Cores)
	}
	return n
}

// NumThreads returns the load value m_thread: the number of threads of all cores.
func (t Topology) NumThreads() int { return t.Usable().Len() }

// Usable returns the processors of all cores.
func (t Topology) Usable() CPUSet { return t.CPUs(t.Pairs()) }

// CPUs returns the processors of the given cores: all threads of each, since a core runs one job at
// a time. It ignores cores that the host lacks.
func (t Topology) CPUs(pairs []Pair) CPUSet {
	var s CPUSet
	for _, p := range pairs {
		if core, ok := t.Core(p); ok {
			s = s.Union(core.CPUs)
		}
	}
	return s
}

// Mems returns the memory nodes that are local to the given cores. If the set is empty, they are
// unknown, and memory should not be restricted.
func (t Topology) Mems(pairs []Pair) CPUSet { return t.MemsOf(t.CPUs(pairs)) }

// MemsOf returns the memory nodes of processors, which need not be whole cores; see Mems. It
// ignores unusable processors.
func (t Topology) MemsOf(cpus CPUSet) CPUSet {
	var mems, known CPUSet
	for _, n := range t.Nodes {
		if !n.CPUs.Intersect(cpus).IsEmpty() {
			mems, known = mems.Union(n.Mems), known.Union(n.CPUs)
		}
	}
	if !cpus.Intersect(t.Usable()).SubsetOf(known) {
		// With only some of the nodes the job could not use the memory near one of its processors,
		// which is worse than no restriction.
		return CPUSet{}
	}
	return mems
}

// With returns the cores that contain at least one of the processors.
func (t Topology) With(cpus CPUSet) []Pair {
	var pairs []Pair
	for _, p := range t.Pairs() {
		if core, _ := t.Core(p); !core.CPUs.Intersect(cpus).IsEmpty() {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// Shape returns the shape of the host with no core in use.
func (t Topology) Shape() Shape {
	sh := make(Shape, len(t.Sockets))
	for s, socket := range t.Sockets {
		for _, core := range socket.Cores {
			sh[s] = append(sh[s], CoreShape{Threads: core.CPUs.Len()})
		}
	}
	return sh
}
