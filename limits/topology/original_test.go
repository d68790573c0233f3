package topology

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestNumbersAreThoseOfTheOriginal runs Grid Engine's loadcheck on the same machines, through
// hwloc's HWLOC_FSROOT, and compares the topology string and the processors of every core.
func TestNumbersAreThoseOfTheOriginal(t *testing.T) {
	compareWithOriginal(t, machines(t))
}

// TestSoakNumbersOfBigMachines does the same for machines for which hwloc takes seconds.
func TestSoakNumbersOfBigMachines(t *testing.T) {
	testenv.Soak(t)
	var all []machine
	for name, m := range models {
		if m.sockets*m.perSocket()*m.threads <= 400 { // it takes minutes for more
			all = append(all, m.machine(name))
		}
	}
	compareWithOriginal(t, all)
}

func compareWithOriginal(t *testing.T, all []machine) {
	t.Helper()
	const loadcheck = "/usr/lib/gridengine/loadcheck" // Debian's
	testenv.Require(t, testenv.GridEngine)
	for _, m := range all {
		top, err := Read(m.read, m.allowed)
		if err != nil {
			t.Fatal(err)
		}
		// The original finds no sockets without lists of siblings, and has no option for the
		// allowed processors.
		siblings := false
		for path := range m.files {
			siblings = siblings || strings.HasSuffix(path, "package_cpus_list") || strings.HasSuffix(path, "core_siblings_list")
		}
		if !siblings || !m.allowed.CPUs.IsEmpty() {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			root := writeTree(t, m)
			cmd := exec.Command(loadcheck, "-cb")
			cmd.Env = append(os.Environ(), "HWLOC_FSROOT="+root, "HWLOC_COMPONENTS=linux,stop", "HWLOC_THISSYSTEM=0")
			// Its exit status says that processes of this host cannot be bound to cores of another
			// machine.
			out, _ := cmd.CombinedOutput()
			original := map[string]string{} // processors by core
			for line := range strings.Lines(string(out)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				if name == "Topology" {
					if got := top.Shape().String(); got != strings.TrimSpace(value) {
						t.Errorf("topology is\n%s, original\n%s", got, strings.TrimSpace(value))
					}
				}
				f := strings.Fields(name)
				if strings.HasPrefix(name, "Internal processor ids") && len(f) == 8 {
					original[f[5]+","+f[7]] = strings.Join(strings.Fields(value), " ")
				}
			}
			if len(original) != top.NumCores() {
				t.Errorf("%d cores, original %d\n%s", top.NumCores(), len(original), out)
			}
			for _, p := range top.Pairs() {
				core, _ := top.Core(p)
				if got := core.CPUs.Fields(); got != original[p.String()] {
					t.Errorf("core %v has processors %s, original %s", p, got, original[p.String()])
				}
			}
		})
	}
}

// writeTree writes a machine's files, and the files that hwloc reads instead of the lists.
func writeTree(t *testing.T, m machine) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	masks := map[string]string{"shared_cpu_list": "shared_cpu_map", "cpulist": "cpumap"}
	for path, content := range m.files {
		write(path, content)
		dir, name := filepath.Split(path)
		mask := masks[name]
		if strings.Contains(dir, "/topology/") {
			mask = strings.TrimSuffix(name, "_list")
		}
		if mask == "" || mask == name {
			continue
		}
		set, err := ParseList(content)
		if err != nil {
			t.Fatal(err)
		}
		write(dir+mask, set.Mask())
		if name == "book_siblings_list" {
			write(dir+"book_id", strconv.Itoa(set.First()))
		}
		if name == "shared_cpu_list" {
			write(dir+"type", "Unified")
			write(dir+"size", "1024K")
			write(dir+"level", strings.TrimPrefix(filepath.Base(filepath.Clean(dir)), "index"))
		}
	}
	if m.name == "amd-bulldozer" {
		write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 21\n")
	}
	// hwloc searches for books and compute units only on an architecture that can have them.
	arch := "x86_64"
	if m.name == "s390" {
		arch = "s390x"
	}
	write("/proc/hwloc-nofile-info", "Architecture: "+arch)
	return root
}
