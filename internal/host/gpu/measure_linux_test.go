package gpu_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
)

// TestMeasure measures GPUs of three vendors: values that the host does not say are unknown, and an
// answer of nvidia-smi that cannot be read leaves the values of the others.
func TestMeasure(t *testing.T) {
	root, file := hostWith(t, h100, a40, mi, arc)
	device := filepath.Join(root, "sys/bus/pci/devices", mi.Address)
	testenv.WriteFile(t, filepath.Join(device, "gpu_busy_percent"), "25\n")
	testenv.WriteFile(t, filepath.Join(device, "mem_info_vram_used"), "1073741824\n")
	v := open(t, root, file).Inventory() // 0 is Intel's, 1 and 2 are NVIDIA's, 3 is AMD's
	all := []string{"0", "1", "2", "3"}
	amd := gpu.Sample{Busy: 0.25, Memory: 1 << 30}
	for name, c := range map[string]struct {
		script string // of nvidia-smi; empty for none
		ids    []string
		want   map[string]gpu.Sample
		err    string
	}{
		"all": {
			"echo 00000000:41:00.0, 50, 100; echo 00000000:61:00.0, '[N/A]', '[N/A]'; echo 00000000:77:00.0, 1, 1", all,
			map[string]gpu.Sample{"1": {Busy: 0.5, Memory: 100 << 20}, "2": {Busy: -1, Memory: -1}, "3": amd},
			"",
		},
		"of another vendor":    {"exit 1", []string{"3"}, map[string]gpu.Sample{"3": amd}, ""},
		"none":                 {"exit 1", nil, map[string]gpu.Sample{}, ""},
		"no nvidia-smi":        {"", all, map[string]gpu.Sample{"3": amd}, "there is no nvidia-smi"},
		"an error":             {"echo Unable to determine the device handle; exit 15", all, map[string]gpu.Sample{"3": amd}, "exit status 15: Unable"},
		"more than it can be":  {"echo 00000000:41:00.0, 101, 100", all, map[string]gpu.Sample{"3": amd}, "expected a PCI address, percents and MiB"},
		"the same GPU twice":   {"echo 00000000:41:00.0, 1, 1; echo 00000000:41:00.0, 1, 1", all, map[string]gpu.Sample{"3": amd}, "expected a PCI address"},
		"nonsense":             {"echo No devices were found", all, map[string]gpu.Sample{"3": amd}, "expected a PCI address, percents and MiB"},
		"without end":          {"exec yes 00000000:41:00.0, 1, 1", all, map[string]gpu.Sample{"3": amd}, "it writes more than 1048576 bytes"},
		"a number that is not": {"echo 00000000:41:00.0, 1, -1", all, map[string]gpu.Sample{"3": amd}, "expected a PCI address"},
	} {
		root := root
		if c.script != "" {
			testenv.Reply(t, root, c.script)
		} else {
			root, _ = hostWith(t, h100)
			testenv.WriteFile(t, filepath.Join(root, "sys/bus/pci/devices", mi.Address, "gpu_busy_percent"), "25\n")
			testenv.WriteFile(t, filepath.Join(root, "sys/bus/pci/devices", mi.Address, "mem_info_vram_used"), "1073741824\n")
		}
		got, err := gpu.Measure(t.Context(), root, v, c.ids)
		if !maps.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v, want %v, %q", name, got, err, c.want, c.err)
		}
	}
	for file, text := range map[string]string{"gpu_busy_percent": "many\n", "mem_info_vram_used": "-1\n"} {
		testenv.WriteFile(t, filepath.Join(device, file), text)
	}
	if got, err := gpu.Measure(t.Context(), root, v, []string{"3"}); err != nil || got["3"] != (gpu.Sample{Busy: -1, Memory: -1}) {
		t.Errorf("files of the kernel that cannot be read: %v, %v", got, err)
	}
}

func FuzzParseSamples(f *testing.F) {
	f.Add("00000000:41:00.0, 50, 81559\n")
	f.Add("00000000:41:00.0, [N/A], [N/A]\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := gpu.ParseSamples(text)
		for address, s := range samples {
			if a, ok := gpu.ParseAddress(address); err != nil || !ok || a != address || s.Busy > 1 || s.Memory < -1 {
				t.Errorf("%q gives %s %+v (%v)", text, address, s, err)
			}
		}
	})
}
