package topology

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Reader returns the content of the file with an absolute path, as os.ReadFile does.
type Reader func(path string) ([]byte, error)

// Allowed holds the processors and memory nodes that the agent itself may use. The zero value
// allows everything that is online.
type Allowed struct {
	CPUs CPUSet // sched_getaffinity(2), or the cpuset that jobs get; empty for all
	Mems CPUSet // Mems_allowed_list of /proc/self/status; empty for all
}

const (
	cpuDir  = "/sys/devices/system/cpu/"
	nodeDir = "/sys/devices/system/node/"
)

// Read reads the topology of the host. A file that cannot be read counts as missing: kernels and
// containers differ in the files that they show. Invalid content is an error, because jobs bound to
// wrong cores are worse off than jobs without binding.
//
// The logical numbers are those of hwloc(7), which Grid Engine uses: processors that share a memory
// node, a socket, a die or a cache are adjacent; otherwise the operating system's processor numbers
// determine the order. Processors that may not be used are omitted, and the others are numbered
// consecutively.
func Read(read Reader, allowed Allowed) (Topology, error) {
	r := &sysfs{read: read}
	t := Topology{Online: r.list(cpuDir + "online"), Possible: r.list(cpuDir + "possible")}
	nodes := r.nodes()

	candidates := t.Online.Union(allowed.CPUs)
	for _, n := range nodes { // if there is no file "online"
		candidates = candidates.Union(n.cpus)
	}
	var cpus []cpu
	var usable CPUSet
	for id := range candidates.All {
		c := r.cpu(id)
		// Some containers show an "online" that does not match, such as 0-3 for processors 8-11. A
		// processor that is allowed and has a topology is online: the kernel shows no topology for
		// processors that are offline.
		if !c.known && !t.Online.Contains(id) {
			continue
		}
		cpus = append(cpus, c)
		if allowed.CPUs.IsEmpty() || allowed.CPUs.Contains(id) {
			usable.add(id, id)
		}
	}
	if r.err != nil {
		return Topology{}, r.err
	}
	if usable.IsEmpty() {
		usable = allowed.CPUs
		for id := range usable.All {
			cpus = append(cpus, unknownCPU(id))
		}
	}
	if usable.IsEmpty() {
		return Topology{}, errors.New("cannot read the CPU topology: no " + cpuDir + "online, and no allowed processors are known")
	}

	known := slices.ContainsFunc(cpus, func(c cpu) bool { return c.known && usable.Contains(c.id) })
	if known {
		// A processor without files, among others that have them, has just gone offline.
		cpus = slices.DeleteFunc(cpus, func(c cpu) bool { return !c.known })
	} else {
		for i := range cpus {
			cpus[i] = unknownCPU(cpus[i].id)
		}
	}
	t.Guessed = !known
	t.Sockets = arrange(cpus, nodes, usable)
	t.Nodes = localMemory(nodes, t.Usable(), allowed.Mems)
	return t, nil
}

// sysfs reads small files and remembers the first error for invalid content.
type sysfs struct {
	read Reader
	err  error
}

func (r *sysfs) text(path string) (string, bool) {
	b, err := r.read(path)
	s := strings.TrimSpace(string(b))
	return s, err == nil && s != ""
}

func (r *sysfs) fail(path string, err error) {
	if r.err == nil {
		r.err = errors.New("cannot read the CPU topology: " + path + ": " + err.Error())
	}
}

func (r *sysfs) list(path string) CPUSet {
	s, ok := r.text(path)
	if !ok {
		return CPUSet{}
	}
	set, err := ParseList(s)
	if err != nil {
		r.fail(path, err)
	}
	return set
}

// id reads a number that is -1 if the machine lacks the unit. A missing file counts as -1.
func (r *sysfs) id(path string) (id int, exists bool) {
	s, ok := r.text(path)
	if !ok {
		return -1, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > 1<<32-1 {
		r.fail(path, errors.New("cannot read number "+strconv.Quote(s)))
		return -1, true
	}
	// Old kernels print the -1 of arm64 as an unsigned number.
	if n < 0 || n >= 1<<31-1 {
		return -1, true
	}
	return int(n), true
}

// cpu is the kernel's description of one processor.
type cpu struct {
	id                        int
	known                     bool // the processor has a topology
	pkg, die, cluster, coreID int

	// The processors that share a unit with this one; empty if unknown.
	threads, book, pkgCPUs, dieCPUs, clusterCPUs, l2, l3 CPUSet
}

func unknownCPU(id int) cpu {
	return cpu{id: id, pkg: -1, die: -1, cluster: -1, coreID: -1}
}

func (r *sysfs) cpu(id int) cpu {
	c := unknownCPU(id)
	dir := cpuDir + "cpu" + strconv.Itoa(id)
	topo := dir + "/topology/"
	var hasPkg, hasCore bool
	c.pkg, hasPkg = r.id(topo + "physical_package_id")
	c.coreID, hasCore = r.id(topo + "core_id")
	// The second name in each pair is used by kernels before Linux 5.3.
	c.threads = r.siblings(id, topo+"core_cpus_list", topo+"thread_siblings_list")
	c.pkgCPUs = r.siblings(id, topo+"package_cpus_list", topo+"core_siblings_list")
	c.known = hasPkg || hasCore || !c.threads.IsEmpty() || !c.pkgCPUs.IsEmpty()
	if !c.known {
		return c
	}
	c.die, _ = r.id(topo + "die_id")
	c.cluster, _ = r.id(topo + "cluster_id")
	if c.pkg < 0 { // s390: several sockets on a book
		c.book = r.siblings(id, topo+"book_cpus_list", topo+"book_siblings_list")
	}
	c.dieCPUs = r.siblings(id, topo+"die_cpus_list")
	c.clusterCPUs = r.siblings(id, topo+"cluster_cpus_list")
	// Indexes 0 and 1 are the data and instruction caches of the first level.
	c.l2 = r.siblings(id, dir+"/cache/index2/shared_cpu_list")
	c.l3 = r.siblings(id, dir+"/cache/index3/shared_cpu_list")
	return c
}

// siblings returns the first existing list that includes the processor itself. A list without it
// belongs to another processor.
func (r *sysfs) siblings(id int, paths ...string) CPUSet {
	for _, p := range paths {
		if s := r.list(p); s.Contains(id) {
			return s
		}
	}
	return CPUSet{}
}

// node is a memory node, before unusable processors are removed.
type node struct {
	id        int
	cpus      CPUSet
	memory    bool
	distances []int // to each online node, in the order of nodes
}

func (r *sysfs) nodes() []node {
	online := r.list(nodeDir + "online")
	memory, found := CPUSet{}, false
	for _, f := range []string{"has_memory", "has_normal_memory"} {
		if s, ok := r.text(nodeDir + f); ok && !found {
			set, err := ParseList(s)
			if err != nil {
				r.fail(nodeDir+f, err)
			}
			memory, found = set, true
		}
	}
	var nodes []node
	for id := range online.All {
		dir := nodeDir + "node" + strconv.Itoa(id) + "/"
		n := node{id: id, cpus: r.list(dir + "cpulist"), memory: !found || memory.Contains(id)}
		s, _ := r.text(dir + "distance")
		for f := range strings.FieldsSeq(s) {
			d, err := strconv.Atoi(f)
			if err != nil {
				r.fail(dir+"distance", errors.New("cannot read distance "+strconv.Quote(f)))
			}
			n.distances = append(n.distances, d)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// localMemory finds the local memory of each node with processors.
func localMemory(nodes []node, usable, allowed CPUSet) []Node {
	var withMemory CPUSet
	for _, n := range nodes {
		if n.memory && (allowed.IsEmpty() || allowed.Contains(n.id)) {
			withMemory.add(n.id, n.id)
		}
	}
	var out []Node
	for _, n := range nodes {
		if n.cpus.Intersect(usable).IsEmpty() {
			continue
		}
		local := Of(n.id)
		for _, m := range nodes {
			if m.cpus.IsEmpty() && nearest(nodes, m, func(o node) bool { return !o.cpus.IsEmpty() }).Contains(n.id) {
				local.add(m.id, m.id)
			}
		}
		local = local.Intersect(withMemory)
		if local.IsEmpty() {
			local = nearest(nodes, n, func(o node) bool { return withMemory.Contains(o.id) })
		}
		out = append(out, Node{n.id, n.cpus.Intersect(usable), local})
	}
	return out
}

// nearest returns the nodes at the smallest distance from n among those that ok accepts. Without
// distances it returns all of these.
func nearest(nodes []node, n node, ok func(node) bool) CPUSet {
	var set CPUSet
	best := -1
	for i, o := range nodes {
		if !ok(o) {
			continue
		}
		d := 0
		if len(n.distances) == len(nodes) {
			d = n.distances[i]
		}
		if best < 0 || d < best {
			best, set = d, CPUSet{}
		}
		if d == best {
			set.add(o.id, o.id)
		}
	}
	return set
}
