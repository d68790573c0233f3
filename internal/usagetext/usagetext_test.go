package usagetext

import (
	"testing"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
)

func TestLine(t *testing.T) {
	start := time.Unix(1000, 0)
	for want, r := range map[string]accounting.Record{
		"0.0 s of CPU time": {},
		"0:10:00 of CPU time, 50 % of 1 slot, and 512.0M of memory":                                 {Slots: 1, Usage: job.Usage{CPU: 600, MaxVmem: 1 << 29}},
		"1:00:00 of CPU time, 75 % of 4 slots, and 3.0G of memory, 75 % of the request (h_vmem=1G)": {Slots: 4, Category: "-l h_vmem=1G -pe smp 4", Usage: job.Usage{CPU: 3600, MaxVmem: 3 << 30}},
		"0:10:00 of CPU time, 50 % of 1 slot; 0:20:00 on 1 GPU, use not measured": {
			Slots: 1, Usage: job.Usage{CPU: 600, GPU: job.GPUUsage{Count: 1, Seconds: 1200}},
		},
		"0:10:00 of CPU time, 50 % of 1 slot; 0:40:00 on 2 GPUs, 25 % used, 3.0G of their memory at most": {
			Slots: 1, Usage: job.Usage{CPU: 600, GPU: job.GPUUsage{Count: 2, Seconds: 2400, Measured: 2000, Busy: 500, MaxMemory: 3 << 30}},
		},
		"0:01:40 of CPU time, 8 % of 1 slot, and 100.0K of memory, 0 % of the request (h_vmem=1G); next time request -l h_vmem=16M -l h_rt=00:25:00": {Slots: 1, Category: "-l h_vmem=1G,h_rt=9000", Usage: job.Usage{CPU: 100, MaxVmem: 100 << 10}},
	} {
		if r.Slots > 0 {
			r.Start, r.End = start, start.Add(20*time.Minute)
			r.Usage.Wallclock = 1200
		}
		var e accounting.Efficiency
		e.Add(&r)
		if got := Line(&e); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
