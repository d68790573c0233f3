package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// GPU is a GPU in a tree that GPUs makes.
type GPU struct {
	Vendor  string // "nvidia", "amd" or "intel"
	Address string // on the PCI bus
	Model   string
	UUID    string // for NVIDIA's; "" if the driver does not know it yet
	Unique  uint64 // of AMD's
	Memory  uint64 // of AMD's, in bytes
	NUMA    int
	Root    string // the PCIe root, "pci0000:40"; "" if the kernel does not show it
	Minor   int    // of the device, and of the render node
}

// GPUs makes the files of /proc and /sys that show some GPUs, in the kernel's form, below a directory,
// which may contain further GPUs already.
func GPUs(t testing.TB, root string, gpus ...GPU) {
	t.Helper()
	file := func(text string, name ...string) {
		WriteFile(t, filepath.Join(append([]string{root}, name...)...), text+"\n")
	}
	file("Character devices:\n  1 mem\n195 nvidia-frontend\n226 drm\n511 nvidia-uvm\n\nBlock devices:\n  8 sd", "proc/devices")
	for i, g := range gpus {
		pci := filepath.Join("sys/bus/pci/devices", g.Address)
		if g.Root != "" {
			device := filepath.Join("sys/devices", g.Root, g.Address)
			for _, dir := range []string{device, filepath.Dir(pci)} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(filepath.Join("../../../devices", g.Root, g.Address), filepath.Join(root, pci)); err != nil {
				t.Fatal(err)
			}
		}
		vendor := map[string]string{"nvidia": "0x10de", "amd": "0x1002", "intel": "0x8086"}[g.Vendor]
		file(vendor, pci, "vendor")
		file("0x030200", pci, "class")
		file(fmt.Sprint(g.NUMA), pci, "numa_node")
		switch g.Vendor {
		case "nvidia":
			uuid := g.UUID
			if uuid == "" {
				uuid = "GPU-????????-????-????-????-????????????"
			}
			file(fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Excluded:\t No",
				g.Model, uuid, g.Address, g.Minor), "proc/driver/nvidia/gpus", g.Address, "information")
		case "amd":
			var domain, bus, device, function uint64
			if _, err := fmt.Sscanf(g.Address, "%x:%x:%x.%x", &domain, &bus, &device, &function); err != nil {
				t.Fatal(err)
			}
			node := filepath.Join("sys/class/kfd/kfd/topology/nodes", fmt.Sprint(i+1))
			file(fmt.Sprintf("cpu_cores_count 0\nsimd_count 304\nlocation_id %d\ndomain %d\nunique_id %d\ndrm_render_minor %d",
				bus<<8|device<<3|function, domain, g.Unique, g.Minor), node, "properties")
			file(g.Model, node, "name")
			file(fmt.Sprintf("heap_type 1\nsize_in_bytes %d", g.Memory), node, "mem_banks/0/properties")
			file("509:0", "sys/class/kfd/kfd/dev")
			fallthrough
		case "intel":
			render := fmt.Sprintf("renderD%d", g.Minor)
			file(fmt.Sprintf("226:%d", g.Minor), pci, "drm", render, "dev")
		}
	}
}

// Node makes a character device that all users may open. Only root can call it.
func Node(t testing.TB, path string, major, minor int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, major<<8|minor); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { //nolint:forbidigo // of the test alone
		t.Fatal(err)
	}
}

// Reply makes the nvidia-smi of a tree: a shell script.
func Reply(t testing.TB, root string, script ...string) {
	t.Helper()
	path := filepath.Join(root, "usr/bin/nvidia-smi")
	WriteFile(t, path, "#!/bin/sh\n"+strings.Join(script, "\n")+"\n")
	if err := os.Chmod(path, 0o755); err != nil { //nolint:forbidigo // of the test alone
		t.Fatal(err)
	}
}
