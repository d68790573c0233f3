package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Instance is a MIG instance of an NVIDIA GPU.
type Instance struct {
	GI, CI  int // numbers of its GPU instance and its compute instance
	UUID    string
	Profile string // "1g.10gb"
	MiB     int
}

// Divided is a GPU of NVIDIA that has MIG instances, or none.
type Divided struct {
	GPU
	MiB       int
	Instances []Instance
}

// MIG makes the files of /proc that show the MIG instances of GPUs, which GPUs has made below a directory, and an
// nvidia-smi that knows all of these GPUs. It replaces what an earlier call has made. Files of unchanged instances stay.
func MIG(t testing.TB, root string, gpus ...Divided) {
	t.Helper()
	caps := filepath.Join(root, "proc/driver/nvidia/capabilities")
	access := func(minor int, mode string, name ...string) {
		path := filepath.Join(append([]string{caps}, name...)...)
		if _, err := os.Stat(path); err != nil {
			WriteFile(t, path, fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: %s\nDeviceFileModify: 1\n", minor, mode))
		}
	}
	WriteFile(t, filepath.Join(root, "proc/devices"), "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n236 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n  8 sd\n")
	access(1, "256", "mig/config")
	access(2, "292", "mig/monitor")
	query, list, xml := "", "", ""
	for i, g := range gpus {
		dir := fmt.Sprintf("gpu%d/mig", g.Minor)
		keep := map[string]bool{}
		list += fmt.Sprintf("GPU %d: %s (UUID: %s)\n", i, g.Model, g.UUID)
		mode, devices := "Disabled", ""
		for n, x := range g.Instances {
			mode = "Enabled"
			group := fmt.Sprintf("gi%d", x.GI)
			own := fmt.Sprintf("%s/ci%d", group, x.CI)
			keep[group], keep[own] = true, true
			access(InstanceMinor(g.Minor, x.GI, -1), "292", dir, group, "access")
			access(InstanceMinor(g.Minor, x.GI, x.CI), "292", dir, own, "access")
			list += fmt.Sprintf("  MIG %-11s Device %2d: (UUID: %s)\n", x.Profile, n, x.UUID)
			devices += fmt.Sprintf("<mig_device>\n<index>%d</index>\n<gpu_instance_id>%d</gpu_instance_id>\n<compute_instance_id>%d</compute_instance_id>\n"+
				"<fb_memory_usage>\n<total>%d MiB</total>\n<used>%d MiB</used>\n</fb_memory_usage>\n</mig_device>\n", n, x.GI, x.CI, x.MiB, 12+n)
		}
		for _, pattern := range []string{"gi*/ci*", "gi*"} {
			dirs, err := filepath.Glob(filepath.Join(caps, dir, pattern))
			for _, path := range dirs {
				if name, _ := filepath.Rel(filepath.Join(caps, dir), path); !keep[name] && err == nil {
					err = os.RemoveAll(path) //nolint:forbidigo // of the test alone
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		query += fmt.Sprintf("0000%s, %s, %d, %s\n", g.Address, g.UUID, g.MiB, mode)
		xml += fmt.Sprintf("<gpu id=\"0000%s\">\n<product_name>%s</product_name>\n<mig_mode>\n<current_mig>%s</current_mig>\n</mig_mode>\n<mig_devices>\n%s</mig_devices>\n"+
			"<uuid>%s</uuid>\n<fb_memory_usage>\n<total>%d MiB</total>\n</fb_memory_usage>\n</gpu>\n", g.Address, g.Model, mode, devices, g.UUID, g.MiB)
	}
	Reply(t, root, "case \"$*\" in", "-L) cat <<'END'\n"+list+"END\n;;", "-q\\ -x) cat <<'END'\n<?xml version=\"1.0\" ?>\n"+
		"<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n"+xml+"</nvidia_smi_log>\nEND\n;;",
		"*memory.total*) cat <<'END'\n"+query+"END\n;;", "esac")
}

// InstanceMinor returns the minor number of the device of a GPU instance or, if ci is not negative, of its compute
// instance, as NVIDIA's driver counts them.
func InstanceMinor(gpu, gi, ci int) int { return 3 + 135*gpu + 9*gi + 1 + ci }
