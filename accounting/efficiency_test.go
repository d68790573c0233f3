package accounting

import (
	"slices"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
)

func record(slots int, wallclock, cpu float64, vmem int64, category string) *Record {
	start := time.Unix(1_700_000_000, 0)
	return &Record{
		Job: 1, Slots: slots, Start: start, End: start.Add(time.Duration(wallclock) * time.Second), Category: category,
		Usage: job.Usage{Wallclock: wallclock, CPU: cpu, MaxVmem: vmem},
	}
}

func withGPUs(r *Record, u job.GPUUsage) *Record {
	r.Usage.GPU = u
	return r
}

func TestEfficiency(t *testing.T) {
	const giga = 1 << 30
	for name, c := range map[string]struct {
		records []*Record
		want    Efficiency
		advice  []string
	}{
		"nothing requested": {
			[]*Record{record(1, 100, 90, giga, "-U x")},
			Efficiency{Records: 1, Slots: 1, Wallclock: 100, Granted: 100, CPU: 90, Longest: 100, Memory: giga},
			nil,
		},
		"too much of everything": {
			[]*Record{record(4, 3600, 3600, giga, "-l h_rt=36000,h_vmem=4G -pe smp 4")},
			Efficiency{
				Records: 1, Slots: 4, Wallclock: 3600, Granted: 14400, CPU: 3600, Longest: 3600, TimeLimit: 36000,
				Memory: giga, Requested: 16 * giga, Request: "h_vmem=4G",
			},
			[]string{"-pe PE 1", "-l h_vmem=320M", "-l h_rt=01:15:00"},
		},
		"nearly too little": {
			[]*Record{record(1, 3500, 3500, 19*giga/20, "-l h_vmem=1G,h_rt=1:0:0")},
			Efficiency{
				Records: 1, Slots: 1, Wallclock: 3500, Granted: 3500, CPU: 3500, Longest: 3500, TimeLimit: 3600,
				Memory: 19 * giga / 20, Requested: giga, Request: "h_vmem=1G",
			},
			[]string{"-l h_vmem=1280M", "-l h_rt=01:13:00"},
		},
		"the largest of several requests, soft ones left out": {
			[]*Record{record(1, 10, 1, 2*giga, "-l mem_free=3G,h_vmem=2G -soft -l m_mem_free=9G")},
			Efficiency{
				Records: 1, Slots: 1, Wallclock: 10, Granted: 10, CPU: 1, Longest: 10,
				Memory: 2 * giga, Requested: 3 * giga, Request: "mem_free=3G",
			},
			nil,
		},
		"an array job with GPUs": {
			[]*Record{
				withGPUs(record(1, 100, 50, giga, ""), job.GPUUsage{Count: 1, Seconds: 100, Measured: 90, Busy: 9, MaxMemory: 5}),
				withGPUs(record(1, 100, 50, giga, ""), job.GPUUsage{Count: 2, Seconds: 200, Measured: 10, Busy: 1, MaxMemory: 3}),
			},
			Efficiency{
				Records: 2, Slots: 1, Wallclock: 200, Granted: 200, CPU: 100, Longest: 100, Memory: giga,
				GPU: job.GPUUsage{Count: 2, Seconds: 300, Measured: 100, Busy: 10, MaxMemory: 5},
			},
			nil,
		},
		"an array job": {
			[]*Record{record(1, 100, 50, giga, ""), record(1, 300, 250, 2*giga, "")},
			Efficiency{Records: 2, Slots: 1, Wallclock: 400, Granted: 400, CPU: 300, Longest: 300, Memory: 2 * giga},
			nil,
		},
		"a parallel job with records of its tasks": {
			[]*Record{record(2, 100, 10, giga, ""), func() *Record { r := record(2, 90, 80, 0, ""); r.PETask = "1.node"; return r }()},
			Efficiency{Records: 1, Slots: 2, Wallclock: 100, Granted: 200, CPU: 90, Longest: 100, Memory: giga},
			[]string{"-pe PE 1"},
		},
		"unlimited": {
			[]*Record{record(1, 100, 100, giga, "-l h_vmem=INFINITY,h_rt=INFINITY")},
			Efficiency{Records: 1, Slots: 1, Wallclock: 100, Granted: 100, CPU: 100, Longest: 100, Memory: giga},
			nil,
		},
		"never ran": {
			[]*Record{{Job: 1, Failed: job.FailedBeforeProlog}},
			Efficiency{Records: 1, Failed: 1, Slots: 1},
			nil,
		},
	} {
		var got Efficiency
		for _, r := range c.records {
			got.Add(r)
		}
		if got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
		if advice := got.Advice(); !slices.Equal(advice, c.advice) {
			t.Errorf("%s: advice %q, expected %q", name, advice, c.advice)
		}
	}
}
