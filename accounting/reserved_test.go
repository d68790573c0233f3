package accounting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

func TestReserve(t *testing.T) {
	const inf, gib = quantity.Infinity, 1 << 30
	for name, c := range map[string]struct {
		limit job.Limit
		slots int
		task  string
		want  job.Usage
	}{
		"no limit":               {job.Limit{Soft: inf, Hard: inf}, 1, "", job.Usage{CPU: 10}},
		"slots":                  {job.Limit{Soft: inf, Hard: 2 * gib}, 3, "", job.Usage{CPU: 30, Mem: 60, MaxVmem: 6 * gib}},
		"no slots are one":       {job.Limit{Soft: inf, Hard: 2 * gib}, 0, "", job.Usage{CPU: 10, Mem: 20, MaxVmem: 2 * gib}},
		"the soft one":           {job.Limit{Soft: gib, Hard: 2 * gib}, 1, "", job.Usage{CPU: 10, Mem: 10, MaxVmem: gib}},
		"the soft one alone":     {job.Limit{Soft: gib, Hard: inf}, 1, "", job.Usage{CPU: 10, Mem: 10, MaxVmem: gib}},
		"of the whole job":       {job.Limit{Soft: inf, Hard: 2 * gib, HardPerJob: true}, 3, "", job.Usage{CPU: 30, Mem: 20, MaxVmem: 2 * gib}},
		"a task":                 {job.Limit{Soft: inf, Hard: 2 * gib}, 3, "1.n1", job.Usage{}},
		"more than there can be": {job.Limit{Soft: inf, Hard: inf - 2}, 100, "", job.Usage{CPU: 1000, Mem: float64(inf) / gib * 1000, MaxVmem: mostMemory}},
	} {
		d := &job.Description{ID: job.ID{Job: 1, PETask: c.task}, HostSlots: c.slots, Limits: job.Unlimited()}
		d.Limits[job.Vmem] = c.limit
		c.want.Wallclock, c.want.IO, c.want.UserTime = 10, 7, 3
		got := job.Usage{Wallclock: 10, CPU: 5, Mem: 4, IO: 7, MaxVmem: 9, UserTime: 3}
		Reserve(d, &got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
