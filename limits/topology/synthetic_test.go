package topology

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// model is a regular machine: every unit contains the same number of the next smaller units.
type model struct {
	sockets, nodes, l3s, cores, threads int // nodes per socket, L3 per node, cores per L3, threads per core

	adjacent   bool // threads of a core have successive numbers; otherwise the first threads of all cores come first
	memoryOnly bool // each node has an additional node with memory only, such as HBM or CXL
	idStep     int  // distance between core_ids on a socket, 1 if 0; the numbering restarts on each socket
}

// models are large machines, according to public information: the specification and the numbers
// that Linux shows. Their files would need megabytes.
var models = map[string]model{
	"AMD EPYC 7742, two sockets, NPS4":             {sockets: 2, nodes: 4, l3s: 4, cores: 4, threads: 2},
	"AMD EPYC 7742, NPS4, without SMT":             {sockets: 2, nodes: 4, l3s: 4, cores: 4, threads: 1},
	"AMD EPYC 7763, NPS4":                          {sockets: 2, nodes: 4, l3s: 2, cores: 8, threads: 2},
	"AMD EPYC 7742, an L3 is a node":               {sockets: 2, nodes: 16, l3s: 1, cores: 4, threads: 2},
	"AMD EPYC 9654, NPS1":                          {sockets: 2, nodes: 1, l3s: 12, cores: 8, threads: 2},
	"AMD Ryzen 9 5950X":                            {sockets: 1, nodes: 1, l3s: 2, cores: 8, threads: 2},
	"Intel Xeon Platinum 8480+, SNC4":              {sockets: 2, nodes: 4, l3s: 1, cores: 14, threads: 2},
	"Intel Xeon Max 9480, SNC4, HBM in flat mode":  {sockets: 2, nodes: 4, l3s: 1, cores: 14, threads: 2, memoryOnly: true},
	"HPE Superdome Flex, 32 sockets, 1792 threads": {sockets: 32, nodes: 1, l3s: 1, cores: 28, threads: 2},
	"Ampere Altra Max, two sockets":                {sockets: 2, nodes: 1, l3s: 1, cores: 128, threads: 1, idStep: 256},
	"IBM POWER9, two sockets, SMT4":                {sockets: 2, nodes: 1, l3s: 11, cores: 2, threads: 4, adjacent: true, idStep: 4},
	"a virtual machine with one processor":         {sockets: 1, nodes: 1, l3s: 1, cores: 1, threads: 1},
	"a virtual machine of 16 sockets":              {sockets: 16, nodes: 1, l3s: 1, cores: 1, threads: 1},
}

func (m model) perSocket() int { return m.nodes * m.l3s * m.cores }

// cpu returns the number of a thread of a core; cores are numbered across the machine.
func (m model) cpu(core, thread int) int {
	if m.adjacent {
		return core*m.threads + thread
	}
	return core + thread*m.sockets*m.perSocket()
}

// threadsOf returns all threads of n cores.
func (m model) threadsOf(first, n int) CPUSet {
	var s CPUSet
	for c := first; c < first+n; c++ {
		for t := range m.threads {
			s.add(m.cpu(c, t), m.cpu(c, t))
		}
	}
	return s
}

// machine generates the sysfs of the model.
func (m model) machine(name string) machine {
	files := map[string]string{}
	total := m.sockets * m.perSocket()
	last := strconv.Itoa(total*m.threads - 1)
	files[cpuDir+"online"], files[cpuDir+"possible"] = "0-"+last, "0-"+last
	step := max(m.idStep, 1)
	for core := range total {
		socket := core / m.perSocket()
		threads := m.threadsOf(core, 1).String()
		pkg := m.threadsOf(socket*m.perSocket(), m.perSocket()).String()
		l3 := m.threadsOf(core/m.cores*m.cores, m.cores).String()
		for t := range m.threads {
			dir := cpuDir + "cpu" + strconv.Itoa(m.cpu(core, t)) + "/"
			for file, text := range map[string]string{
				"topology/physical_package_id": strconv.Itoa(socket), "topology/die_id": "0",
				"topology/core_id":        strconv.Itoa(core % m.perSocket() * step),
				"topology/core_cpus_list": threads, "topology/thread_siblings_list": threads,
				"topology/package_cpus_list": pkg, "topology/core_siblings_list": pkg,
				"cache/index2/shared_cpu_list": threads, "cache/index3/shared_cpu_list": l3,
			} {
				files[dir+file] = text
			}
		}
	}
	m.writeNodes(files)
	return machine{name: name, files: files}
}

func (m model) writeNodes(files map[string]string) {
	nodes := m.sockets * m.nodes
	all := nodes
	if m.memoryOnly {
		all *= 2
	}
	for _, f := range []string{"online", "possible", "has_memory", "has_normal_memory"} {
		files[nodeDir+f] = Range(0, all-1).String()
	}
	for n := range all {
		dir := nodeDir + "node" + strconv.Itoa(n) + "/"
		files[dir+"cpulist"] = ""
		if n < nodes {
			files[dir+"cpulist"] = m.threadsOf(n*m.l3s*m.cores, m.l3s*m.cores).String()
		}
		var distances []string
		for o := range all {
			d := 10
			switch {
			case n == o:
			case n%nodes == o%nodes:
				d = 13
			case n%nodes/m.nodes == o%nodes/m.nodes:
				d = 12
				if m.memoryOnly {
					d = 14
				}
			default:
				d = 32
			}
			distances = append(distances, strconv.Itoa(d))
		}
		files[dir+"distance"] = strings.Join(distances, " ")
	}
}

func TestBigMachines(t *testing.T) {
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			top, err := Read(m.machine(name).read, Allowed{})
			if err != nil {
				t.Fatal(err)
			}
			checkConsistent(t, top, Allowed{})
			core := "C"
			if m.threads > 1 {
				core += strings.Repeat("T", m.threads)
			}
			if got, want := top.Shape().String(), strings.Repeat("S"+strings.Repeat(core, m.perSocket()), m.sockets); got != want {
				t.Errorf("topology %s\nwant %s", got, want)
			}
			if sh, err := ParseShape(top.Shape().String()); err != nil || sh.String() != top.Shape().String() {
				t.Errorf("the topology string reads as %s, %v", sh, err)
			}
			nodes := m.sockets * m.nodes
			for i, p := range top.Pairs() {
				c, _ := top.Core(p)
				// Successive cores share an L3 and a node as far as possible, which is the purpose
				// of linear binding.
				if !c.CPUs.Equal(m.threadsOf(i, 1)) || c.Node != i/(m.l3s*m.cores) {
					t.Fatalf("core %s has processors %s of node %d", p, c.CPUs, c.Node)
				}
				mems := Of(c.Node)
				if m.memoryOnly {
					mems = Of(c.Node, nodes+c.Node)
				}
				if got := top.Mems([]Pair{p}); !got.Equal(mems) {
					t.Fatalf("core %s has memory %s, want %s", p, got, mems)
				}
			}
			want := nodes
			if m.memoryOnly {
				want *= 2
			}
			if got := top.MemsOf(top.Usable()); got.Len() != want {
				t.Errorf("all processors have memory %s", got)
			}
		})
	}
}

// TestPartsOfBigMachines checks the part of a machine that a container or a cpuset allows: its
// cores are numbered consecutively, and its processors and nodes keep their numbers.
func TestPartsOfBigMachines(t *testing.T) {
	for sentence, c := range map[string]struct {
		model   string
		cpus    string
		offline string
		want    string // topology string
		mems    string // memory nodes of all cores
	}{
		"one L3 of a node":                        {"AMD EPYC 7742, two sockets, NPS4", "4-7,132-135", "", "SCTTCTTCTTCTT", "0"},
		"one thread of each core of a node":       {"AMD EPYC 7742, two sockets, NPS4", "16-31", "", "S" + strings.Repeat("C", 16), "1"},
		"a core of each socket":                   {"AMD EPYC 7742, two sockets, NPS4", "0,64,128,192", "", "SCTTSCTT", "0,4"},
		"SMT switched off leaves first threads":   {"AMD Ryzen 9 5950X", "", "16-31", "S" + strings.Repeat("C", 16), "0"},
		"an L3 offline":                           {"AMD Ryzen 9 5950X", "", "8-15,24-31", "S" + strings.Repeat("CTT", 8), "0"},
		"processors beyond the 1024 of a cpu_set": {"HPE Superdome Flex, 32 sockets, 1792 threads", "895,1790-1791", "", "SCCTT", "31"},
		"memory of a node without processors too": {"a virtual machine of 16 sockets", "", "0", strings.Repeat("SC", 15), "0-15"},
		"HBM goes with its processors":            {"Intel Xeon Max 9480, SNC4, HBM in flat mode", "14-15", "", "SCC", "1,9"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := models[c.model].machine(c.model)
			cpus, err := ParseList(c.cpus)
			if err != nil {
				t.Fatal(err)
			}
			if c.offline != "" {
				setOffline(t, m, c.offline)
			}
			top, err := Read(m.read, Allowed{CPUs: cpus})
			if err != nil {
				t.Fatal(err)
			}
			checkConsistent(t, top, Allowed{CPUs: cpus})
			if got := top.Shape().String(); got != c.want {
				t.Errorf("topology %s, want %s", got, c.want)
			}
			if got := top.MemsOf(top.Usable()).String(); got != c.mems {
				t.Errorf("memory %s, want %s", got, c.mems)
			}
		})
	}
}

// setOffline changes a machine's files as the kernel does for processors that go offline: they lose
// their topology files, and are removed from the lists of others.
func setOffline(t *testing.T, m machine, list string) {
	t.Helper()
	gone, err := ParseList(list)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range m.files {
		var id int
		if _, err := fmt.Sscanf(path, cpuDir+"cpu%d/", &id); err == nil && gone.Contains(id) {
			delete(m.files, path)
			continue
		}
		if strings.HasSuffix(path, "list") || path == cpuDir+"online" {
			set, err := ParseList(text)
			if err != nil {
				t.Fatal(err)
			}
			m.files[path] = set.Minus(gone).String()
		}
	}
}

// TestHybridProcessors checks processors with different cores: in the number of threads, and in
// whether they share the last cache.
func TestHybridProcessors(t *testing.T) {
	files := map[string]string{
		cpuDir + "online": "0-21", cpuDir + "possible": "0-21", nodeDir + "online": "0",
		nodeDir + "has_memory": "0", nodeDir + "node0/cpulist": "0-21", nodeDir + "node0/distance": "10",
	}
	write := func(id, coreID int, threads, l2, l3 string) {
		dir := cpuDir + "cpu" + strconv.Itoa(id) + "/"
		files[dir+"topology/physical_package_id"], files[dir+"topology/core_id"] = "0", strconv.Itoa(coreID)
		files[dir+"topology/core_cpus_list"], files[dir+"topology/package_cpus_list"] = threads, "0-21"
		files[dir+"cache/index2/shared_cpu_list"] = l2
		if l3 != "" {
			files[dir+"cache/index3/shared_cpu_list"] = l3
		}
	}
	// Intel Core Ultra 7 155H: six P cores, eight E cores in two clusters, and two cores on the SoC
	// tile, which do not share the L3.
	for i := range 6 {
		pair := Range(2*i, 2*i+1).String()
		write(2*i, 4*i, pair, pair, "0-19")
		write(2*i+1, 4*i, pair, pair, "0-19")
	}
	for id := 12; id < 20; id++ {
		write(id, 24+id-12, strconv.Itoa(id), Range(id/4*4, id/4*4+3).String(), "0-19")
	}
	for id := 20; id < 22; id++ {
		write(id, 32+id-20, strconv.Itoa(id), "20-21", "")
	}
	m := machine{name: "hybrid", files: files}
	top, err := Read(m.read, Allowed{})
	if err != nil {
		t.Fatal(err)
	}
	checkConsistent(t, top, Allowed{})
	if got, want := top.Shape().String(), "S"+strings.Repeat("CTT", 6)+strings.Repeat("C", 10); got != want {
		t.Errorf("topology %s, want %s", got, want)
	}
	for p, want := range map[Pair]string{{0, 5}: "10-11", {0, 6}: "12", {0, 13}: "19", {0, 15}: "21"} {
		if got := top.CPUs([]Pair{p}).String(); got != want {
			t.Errorf("core %s has processors %s, want %s", p, got, want)
		}
	}
	if sh, err := ParseShape(top.Shape().With(func(p Pair) bool { return p.Core == 5 || p.Core == 6 }).String()); err != nil ||
		FormatPairs(sh.InUse()) != "0,5:0,6" {
		t.Errorf("in use %s, %v", FormatPairs(sh.InUse()), err)
	}
}
