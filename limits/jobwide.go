package limits

import (
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// JobWide holds the limits of a whole job on a host, for all its processes together, including
// those that have exited: CPU time in seconds, memory in bytes. quantity.Infinity stands for no
// limit.
type JobWide struct {
	CPU  Bounds // s_cpu, h_cpu
	Vmem Bounds // s_vmem, h_vmem as memory: RAM and swap
	RSS  Bounds // s_rss, h_rss: RAM
}

// Bounds is a soft and a hard limit. A soft limit that is not below the hard limit is ignored: its
// warning would come too late.
type Bounds struct{ Soft, Hard uint64 }

// None reports whether there is neither a soft nor a hard limit.
func (b Bounds) None() bool { return b == Bounds{quantity.Infinity, quantity.Infinity} }

// OfJob returns the limits of a whole job for its slots on this host (queue_conf(5), RESOURCE
// LIMITS: they are per slot; 0 slots count as 1). A requested "consumable JOB" is already for the
// whole job. Memory limits are at least 10 MiB, as in Rlimits: nothing runs with less.
func OfJob(d *job.Description) JobWide {
	w := JobWide{
		CPU: bounds(d, job.CPU, 1), Vmem: bounds(d, job.Vmem, 10<<20), RSS: bounds(d, job.RSS, 10<<20),
	}
	if d.VmemLimit == job.VmemAddressSpace {
		w.Vmem = Bounds{quantity.Infinity, quantity.Infinity}
	}
	return w
}

func bounds(d *job.Description, r job.Resource, least uint64) Bounds {
	l := d.Limits[r]
	value := func(v uint64, perJob bool) uint64 {
		if !perJob {
			v = times(v, d.HostSlots)
		}
		return max(v, least)
	}
	b := Bounds{value(l.Soft, l.SoftPerJob), value(l.Hard, l.HardPerJob)}
	if b.Soft >= b.Hard {
		b.Soft = quantity.Infinity
	}
	return b
}
