package accounting

import (
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Reserve puts into a usage what a job has reserved on its host in place of what it has
// used (sge_conf(5), ACCT_RESERVED_USAGE and SHARETREE_RESERVED_USAGE): as CPU time the
// time that it has run times its slots, as memory s_vmem or h_vmem, the lower one, over
// that time. Both are for each slot, unless they were requested of a complex that is
// "consumable JOB". Without them the memory is 0.
//
// Slots and memory are the job's on this host: its tasks have none of their own.
func Reserve(d *job.Description, u *job.Usage) {
	const gib = 1 << 30
	cpu, memory := u.Wallclock*float64(max(d.HostSlots, 1)), vmem(d)
	if d.ID.PETask != "" {
		cpu, memory = 0, 0
	}
	u.CPU, u.Mem, u.MaxVmem = cpu, memory/gib*u.Wallclock, int64(min(memory, mostMemory))
}

// mostMemory is more than there is, and fits into an int64.
const mostMemory = 1 << 62

// vmem returns the memory in bytes that a job may have; 0 without a limit.
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
