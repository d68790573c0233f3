package topology

// Topology is the processors of a host that may be used, by the logical
// numbers of sockets and cores: the index in Sockets and in Cores.
type Topology struct {
	Sockets []Socket

	// Nodes are the memory nodes that have usable processors, in the order of
	// their ids; empty where the kernel has no NUMA support or hides it.
	Nodes []Node

	// Possible holds the processors that the kernel could ever bring online, Online the ones that
	// it runs now. Processors that may not be used (offline, or outside of the container) are in no
	// Core.
	Possible, Online CPUSet

	// Guessed is true where sysfs shows no topology at all, as in some
	// containers: then each processor counts as a core of one single socket.
	Guessed bool
}

// Socket is one processor package.
type Socket struct {
	ID    int // physical_package_id; -1 where the machine has none
	Cores []Core
}

// Core is one core; jobs are bound to whole cores.
type Core struct {
	ID   int    // core_id, neither dense nor unique on a host; -1 for none
	CPUs CPUSet // the operating system's numbers of its usable threads
	Node int    // id of its memory node, -1 for none
	// L2 and L3 are the usable processors with which it shares its caches of these levels; empty
	// where nothing is known.
	L2, L3 CPUSet
}

// Node is one memory node.
type Node struct {
	ID   int
	CPUs CPUSet // usable processors only
	// Mems are the ids of the nodes whose memory is local to it: itself when
	// it has memory, nodes without processors to which it is nearest, and the
	// nearest nodes with memory when it has none. A cpuset takes only nodes
	// that have memory.
	Mems CPUSet
}

// Core returns the core with logical numbers p.
func (t Topology) Core(p Pair) (Core, bool) {
	if p.Socket < 0 || p.Socket >= len(t.Sockets) || p.Core < 0 || p.Core >= len(t.Sockets[p.Socket].Cores) {
		return Core{}, false
	}
	return t.Sockets[p.Socket].Cores[p.Core], true
}

// Pairs returns all cores in ascending order: the order in which "successive"
// cores follow each other across sockets.
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

// NumCores returns the load value m_core: the cores of all sockets.
func (t Topology) NumCores() int {
	n := 0
	for _, s := range t.Sockets {
		n += len(s.Cores)
	}
	return n
}

// NumThreads returns the load value m_thread: the threads of all cores.
func (t Topology) NumThreads() int { return t.Usable().Len() }

// Usable returns the processors of all cores.
func (t Topology) Usable() CPUSet { return t.CPUs(t.Pairs()) }

// CPUs returns the processors of the given cores: all threads of each, since a
// core has one job at a time. Cores that the host does not have add nothing.
func (t Topology) CPUs(pairs []Pair) CPUSet {
	var s CPUSet
	for _, p := range pairs {
		if core, ok := t.Core(p); ok {
			s = s.Union(core.CPUs)
		}
	}
	return s
}

// Mems returns the memory nodes that are local to the given cores. The empty
// set says that nothing is known and memory should be left alone.
func (t Topology) Mems(pairs []Pair) CPUSet { return t.MemsOf(t.CPUs(pairs)) }

// MemsOf is Mems for processors, which need not be whole cores. Processors that
// are not usable add nothing.
func (t Topology) MemsOf(cpus CPUSet) CPUSet {
	var mems, known CPUSet
	for _, n := range t.Nodes {
		if !n.CPUs.Intersect(cpus).IsEmpty() {
			mems, known = mems.Union(n.Mems), known.Union(n.CPUs)
		}
	}
	if !cpus.Intersect(t.Usable()).SubsetOf(known) {
		// Half the nodes would be worse than none: the job's memory would be
		// kept away from a processor.
		return CPUSet{}
	}
	return mems
}

// With returns the cores that have one of the processors.
func (t Topology) With(cpus CPUSet) []Pair {
	var pairs []Pair
	for _, p := range t.Pairs() {
		if core, _ := t.Core(p); !core.CPUs.Intersect(cpus).IsEmpty() {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// Shape returns the topology string of the host, with nothing in use.
func (t Topology) Shape() Shape {
	sh := make(Shape, len(t.Sockets))
	for s, socket := range t.Sockets {
		for _, core := range socket.Cores {
			sh[s] = append(sh[s], CoreShape{Threads: core.CPUs.Len()})
		}
	}
	return sh
}
