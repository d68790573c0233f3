package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/topology"
)

// nodes makes the files of /sys of a host with two sockets, each a memory node with two cores of one
// thread.
func nodes(t *testing.T, root string) topology.Topology {
	t.Helper()
	file := func(name, text string) {
		testenv.WriteFile(t, filepath.Join(root, "sys/devices/system", name), text+"\n")
	}
	for _, name := range []string{"cpu/online", "cpu/possible"} {
		file(name, "0-3")
	}
	for i := range 4 {
		dir := fmt.Sprintf("cpu/cpu%d/topology/", i)
		file(dir+"physical_package_id", fmt.Sprint(i/2))
		file(dir+"core_id", fmt.Sprint(i%2))
		file(dir+"thread_siblings_list", fmt.Sprint(i))
		file(dir+"core_siblings_list", fmt.Sprintf("%d-%d", i/2*2, i/2*2+1))
	}
	file("node/online", "0-1")
	file("node/has_memory", "0-1")
	for i := range 2 {
		file(fmt.Sprintf("node/node%d/cpulist", i), fmt.Sprintf("%d-%d", 2*i, 2*i+1))
		file(fmt.Sprintf("node/node%d/distance", i), []string{"10 20", "20 10"}[i])
	}
	top, err := topology.Read(func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) }, topology.Allowed{})
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestGPUPlaces reads the places of four GPUs of a host with two sockets. The kernel does not know the
// memory node and the root of the last one.
func TestGPUPlaces(t *testing.T) {
	root := t.TempDir()
	top := nodes(t, root)
	testenv.GPUs(
		t, root,
		testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "A", UUID: "GPU-1", Minor: 0, NUMA: 0, Root: "pci0000:40"},
		testenv.GPU{Vendor: "nvidia", Address: "0000:42:00.0", Model: "A", UUID: "GPU-2", Minor: 1, NUMA: 0, Root: "pci0000:40"},
		testenv.GPU{Vendor: "nvidia", Address: "0000:c1:00.0", Model: "A", UUID: "GPU-3", Minor: 2, NUMA: 1, Root: "pci0000:c0"},
		testenv.GPU{Vendor: "nvidia", Address: "0000:e1:00.0", Model: "A", UUID: "GPU-4", Minor: 3, NUMA: -1},
	)
	register := gpu.OpenRegister(root, filepath.Join(root, "gpus"), nil)
	defer register.Close()
	const want = "0,1:pci0000:40/SccSCC 2:pci0000:c0/SCCScc 3:/SCCSCC"
	if got := GPUPlaces(top, register.Inventory().Offered()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
