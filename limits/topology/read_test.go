package topology

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func dump(t Topology, read Reader) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topology %s\nsockets %d, cores %d, threads %d\n", t.Shape(), t.NumSockets(), t.NumCores(), t.NumThreads())
	fmt.Fprintf(&b, "tree %s\n", t.Tree(read))
	fmt.Fprintf(&b, "online %s\npossible %s\nguessed %v\n", t.Online, t.Possible, t.Guessed)
	for s, socket := range t.Sockets {
		fmt.Fprintf(&b, "socket %d: package %d\n", s, socket.ID)
		for c, core := range socket.Cores {
			fmt.Fprintf(&b, "  core %s: processors %s, node %d, core_id %d\n", Pair{s, c}, core.CPUs, core.Node, core.ID)
		}
	}
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "node %d: processors %s, memory %s\n", n.ID, n.CPUs, n.Mems)
	}
	return b.String()
}

func TestMachinesAreReadAsTheGoldenFilesSay(t *testing.T) {
	for _, m := range machines(t) {
		t.Run(m.name, func(t *testing.T) {
			top, err := Read(m.read, m.allowed)
			if err != nil {
				t.Fatal(err)
			}
			got, path := dump(top, m.read), "testdata/"+m.name+".golden"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			checkConsistent(t, top, m.allowed)
		})
	}
}

// checkConsistent checks the invariants of every machine.
func checkConsistent(t *testing.T, top Topology, allowed Allowed) {
	t.Helper()
	var seen CPUSet
	for _, p := range top.Pairs() {
		core, ok := top.Core(p)
		if !ok || core.CPUs.IsEmpty() {
			t.Errorf("core %v does not exist or has no processor", p)
		}
		if both := core.CPUs.Intersect(seen); !both.IsEmpty() {
			t.Errorf("core %v shares processors %v with another", p, both)
		}
		seen = seen.Union(core.CPUs)
	}
	if !allowed.CPUs.IsEmpty() && !seen.SubsetOf(allowed.CPUs) {
		t.Errorf("uses processors %v, allowed are %v", seen, allowed.CPUs)
	}
	if sh, err := ParseShape(top.Shape().String()); err != nil || !sh.SameHost(top.Shape()) {
		t.Errorf("topology string %q reads as %v, %v", top.Shape(), sh, err)
	}
	for _, n := range top.Nodes {
		if n.Mems.IsEmpty() {
			t.Errorf("node %d has no memory near it", n.ID)
		}
		if !allowed.Mems.IsEmpty() && !n.Mems.SubsetOf(allowed.Mems) {
			t.Errorf("node %d uses memory %v, allowed is %v", n.ID, n.Mems, allowed.Mems)
		}
	}
}

func TestShapesOfMachines(t *testing.T) {
	for sentence, c := range map[string]struct{ machine, want string }{
		"no threads, no T":                          {"one-socket-two-cores", "SCC"},
		"two sockets with threads":                  {"two-sockets-numa", "SCTTCTTSCTTCTT"},
		"an offline thread leaves its core":         {"offline", "SCTTCSCTT"},
		"package ids count although cores come odd": {"intel-core2", "SCCCCSCCCC"},
		"P cores have threads, E cores have none":   {"intel-hybrid", "SCTTCTTCTTCTTCTTCTTCCCCCCCC"},
		"core_id that repeats makes no core":        {"amd-magny-cours", strings.Repeat("SCCCCCCCCCCCC", 4)},
		"compute units are two cores":               {"amd-bulldozer", strings.Repeat("SCCCCCCCCCCCCCCCC", 4)},
		"nodes make no sockets":                     {"amd-naples", strings.Repeat("S"+strings.Repeat("CTT", 16), 2)},
		"more than two threads":                     {"power9-gpu", strings.Repeat("SCTTTTCTTTTCTTTTCTTTT", 2)},
		"sockets without ids are told by siblings":  {"s390", "SCCCSCCCSCCCCSCCCSCCSCSCSCCC"},
		"without ids and siblings there is one":     {"arm64-no-package", "SCCCCCCCC"},
		"core_id counts per die and package":        {"no-siblings", "SCTTCTTSCTTCTT"},
		"a cpuset of one socket":                    {"container-cpuset", "SCTTCTT"},
		"a cpuset through cores":                    {"container-half-cores", "SCCSC"},
		"no topology: processors are cores":         {"container-no-topology", "SCCCC"},
		"a foreign online is not believed":          {"container-other-online", "SCCCC"},
		"no sysfs: what is allowed are cores":       {"container-nothing", "SCC"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := loadMachine(t, "testdata/"+c.machine+".txt")
			top, err := Read(m.read, m.allowed)
			if got := top.Shape().String(); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestMemoryOfCores(t *testing.T) {
	for sentence, c := range map[string]struct {
		machine string
		cores   []Pair
		want    string
	}{
		"the node of the core":                       {"two-sockets-numa", []Pair{{1, 0}}, "1"},
		"nodes of all cores":                         {"two-sockets-numa", []Pair{{1, 0}, {0, 1}}, "0-1"},
		"a node without memory has the nearest ones": {"amd-naples", []Pair{{1, 8}}, "4-5,7"},
		"sparse node ids, memory of GPUs with it":    {"power9-gpu", []Pair{{1, 0}}, "8,250-255"},
		"a guessed host leaves memory alone":         {"container-no-topology", []Pair{{0, 0}}, ""},
		"one core without node leaves memory alone":  {"offline-node", []Pair{{0, 0}, {1, 0}}, ""},
		"only what the container may use":            {"container-half-cores", []Pair{{1, 0}}, "0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := loadMachine(t, "testdata/"+c.machine+".txt")
			top, err := Read(m.read, m.allowed)
			if got := top.Mems(c.cores).String(); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestReadRefusesWhatMakesNoSense(t *testing.T) {
	for sentence, c := range map[string]struct {
		file, content, want string
	}{
		"an invalid list":       {cpuDir + "online", "0-x", `cannot read the CPU topology: /sys/devices/system/cpu/online: cannot read CPU list "0-x": "0-x" is not a number`},
		"an invalid id":         {cpuDir + "cpu0/topology/core_id", "zero", `core_id: cannot read number "zero"`},
		"siblings that are not": {cpuDir + "cpu1/topology/core_cpus_list", "1-0", `core_cpus_list: cannot read CPU list "1-0"`},
		"a node of nonsense":    {nodeDir + "node0/cpulist", "0-99999999", "node0/cpulist: cannot read CPU list"},
		"a distance of none":    {nodeDir + "node0/distance", "10 far", `distance: cannot read distance "far"`},
		"memory of nonsense":    {nodeDir + "has_memory", "yes", `has_memory: cannot read CPU list "yes"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := loadMachine(t, "testdata/one-socket-two-cores.txt")
			m.files[c.file] = c.content
			if _, err := Read(m.read, m.allowed); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	nothing := func(string) ([]byte, error) { return nil, fs.ErrPermission }
	if _, err := Read(nothing, Allowed{}); err == nil || errors.Is(err, fs.ErrPermission) {
		t.Errorf("no sysfs and nothing allowed: got %v", err)
	}
}

func TestThisMachineCanBeRead(t *testing.T) {
	top, err := Read(os.ReadFile, Allowed{})
	if err != nil {
		t.Fatal(err)
	}
	checkConsistent(t, top, Allowed{})
	t.Log(dump(top, os.ReadFile))
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"one-socket-two-cores", "arm64-clusters"} {
		m := loadMachine(b, "testdata/"+name+".txt")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Read(m.read, m.allowed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestReadIsQuickOnTheLargestHost(t *testing.T) {
	nothing := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	top, err := Read(nothing, Allowed{CPUs: Range(0, 8191)}) // NR_CPUS
	if err != nil || top.NumCores() != 8192 {
		t.Errorf("got %d cores, %v", top.NumCores(), err)
	}
}
