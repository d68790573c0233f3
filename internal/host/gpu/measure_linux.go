package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// Sample is the load of a GPU at one time. Unknown values are negative.
type Sample struct {
	Busy   float64 // the part of the last moments in which it computed, 0 to 1
	Memory int64   // in use, in bytes
}

var unknownSample = Sample{-1, -1}

// Measure measures some GPUs of a host (see Detect), by their numbers: AMD's by files of the kernel,
// NVIDIA's by one call of nvidia-smi, which has the limits of Query, and its MIG instances by another, which
// says only their memory. A GPU of another vendor has no sample. Measure returns the samples that it has, also with an error.
func Measure(ctx context.Context, root string, v *Inventory, ids []string) (map[string]Sample, error) {
	samples := map[string]Sample{}
	byAddress, instances := map[string]string{}, map[string]string{}
	for _, g := range v.granted(ids) {
		switch {
		case g.Vendor == AMD:
			samples[g.ID] = measureAMD(root, g.Address)
		case g.Instance != "":
			instances[g.Address+" "+g.Instance] = g.ID
		case g.Vendor == NVIDIA:
			byAddress[g.Address] = g.ID
		}
	}
	if len(byAddress)+len(instances) == 0 {
		return samples, nil
	}
	program, err := filepath.Abs(filepath.Join(root, queryProgram))
	if err != nil {
		return samples, err
	}
	if len(instances) > 0 {
		told, err := describe(ctx, program, "")
		if err != nil {
			return samples, err
		}
		for _, t := range told {
			if id, ok := instances[t.Address+" "+t.Instance]; ok {
				samples[id] = Sample{unknownSample.Busy, t.Used}
			}
		}
	}
	if len(byAddress) == 0 {
		return samples, nil
	}
	text, err := ask(ctx, program, "--query-gpu=pci.bus_id,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
	if err != nil {
		return samples, err
	}
	answer, err := ParseSamples(text)
	if err != nil {
		return samples, fmt.Errorf("cannot use the answer of nvidia-smi: %w", err)
	}
	for address, s := range answer {
		if id, ok := byAddress[address]; ok {
			samples[id] = s
		}
	}
	return samples, nil
}

// measureAMD reads the files of the driver amdgpu.
func measureAMD(root, address string) Sample {
	files, s := os.DirFS(root), unknownSample
	number := func(name string) (uint64, error) {
		b, err := textfile.ReadFS(files, path.Join(pciDir, address, name), maxKernelFile)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	}
	if n, err := number("gpu_busy_percent"); err == nil && n <= hundred {
		s.Busy = float64(n) / hundred
	}
	if n, err := number("mem_info_vram_used"); err == nil {
		s.Memory = int64(n) //nolint:gosec // of 63 bits
	}
	return s
}

const hundred = 100

// ParseSamples reads the answer of nvidia-smi: for each GPU a line with its address, its utilisation
// in percent and its used memory in MiB. A value that the driver does not know is in brackets. The
// result has the addresses as keys.
func ParseSamples(text string) (map[string]Sample, error) {
	samples := map[string]Sample{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		fields := strings.Split(line, ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		wrong := fmt.Errorf("%q, expected a PCI address, percents and MiB", firstLine(line))
		if len(fields) != 3 {
			return nil, wrong
		}
		address, ok := ParseAddress(fields[0])
		if _, twice := samples[address]; !ok || twice {
			return nil, wrong
		}
		const most = 1 << 40 // MiB
		busy, err1 := sampleValue(fields[1], hundred)
		memory, err2 := sampleValue(fields[2], most)
		if err := errors.Join(err1, err2); err != nil {
			return nil, wrong
		}
		s := unknownSample
		if busy >= 0 {
			s.Busy = float64(busy) / hundred
		}
		if memory >= 0 {
			s.Memory = memory << 20
		}
		samples[address] = s
	}
	return samples, nil
}

// sampleValue reads a number up to most; -1 for "[N/A]".
func sampleValue(s string, most int64) (int64, error) {
	if strings.HasPrefix(s, "[") {
		return -1, nil
	}
	n, err := strconv.ParseUint(s, 10, 62)
	if err == nil && int64(n) > most { //nolint:gosec // of 62 bits
		err = strconv.ErrRange
	}
	return int64(n), err //nolint:gosec // of 62 bits
}

// Measurable reports whether a job with some GPUs has one that Measure can measure.
func (v *Inventory) Measurable(ids []string) bool {
	return v != nil && slices.ContainsFunc(v.granted(ids), func(g GPU) bool { return g.Vendor != Intel })
}
