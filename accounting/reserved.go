package accounting

import (
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Reserve replaces the measured usage of a job by its reserved usage on this host (sge_conf(5),
// ACCT_RESERVED_USAGE and SHARETREE_RESERVED_USAGE). The CPU time becomes the wall-clock time times
// the slots. The memory becomes s_vmem or h_vmem, whichever is lower, times the wall-clock time;
// without either it becomes 0. Both limits are per slot unless the complex is "consumable JOB".
//
// Slots and memory belong to the job on this host: its tasks have none of their own.
func Reserve(d *job.Description, u *job.Usage) {
	const gib = 1 << 30
	cpu, memory := u.Wallclock*float64(max(d.HostSlots, 1)), vmem(d)
	if d.ID.PETask != "" {
		cpu, memory = 0, 0
	}
	u.CPU, u.Mem, u.MaxVmem = cpu, memory/gib*u.Wallclock, int64(min(memory, mostMemory))
}

// mostMemory exceeds any real memory, and fits into an int64.
const mostMemory = 1 << 62

// vmem returns the memory limit of a job in bytes, 0 without a limit.
func vmem(d *job.Description) float64 {
	l, least := d.Limits[job.Vmem], 0.0
	for _, limit := range []struct {
		value  uint64
		perJob bool
	}{{l.Soft, l.SoftPerJob}, {l.Hard, l.HardPerJob}} {
		if limit.value == quantity.Infinity {
			continue
		}
		v := float64(limit.value)
		if !limit.perJob {
			v *= float64(max(d.HostSlots, 1))
		}
		if least == 0 || v < least {
			least = v
		}
	}
	return least
}
