package limits

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// OfProcess returns the resource limits of each process of a job whose CPU time
// and memory are watched as a whole. They are those of Rlimits, but for three.
//
// RLIMIT_CPU is a fence behind h_cpu, for the case that nobody watches any more:
// where the kernel's limit was the same, it would end the process first, without
// terminate method or notification, and without a word about the reason. Its soft
// limit is not used: the kernel repeats SIGXCPU every second, and each process of
// the job has a count of its own.
//
// RLIMIT_AS has h_vmem for both: at a soft limit of the kernel's allocations
// fail, where queue_conf(5) promises SIGXCPU for s_vmem. It is left out where
// s_vmem and h_vmem are of memory alone.
//
// RLIMIT_NPROC is not above Description.UserProcesses.
func OfProcess(d *job.Description, processors int) []Rlimit {
	list := Rlimits(d.Limits, d.HostSlots)
	kept := list[:0]
	for _, r := range list {
		switch r.Resource {
		case job.Vmem:
			if d.VmemLimit == job.VmemMemory {
				continue
			}
			r.Soft = r.Hard
		case job.CPU:
			if r.Hard != unix.RLIM_INFINITY {
				r.Hard += min(fence(d, r.Hard, processors), mostCPU)
			}
			r.Soft = r.Hard
		}
		if r.Resource == job.MaxProc && d.UserProcesses > 0 {
			most := uint64(d.UserProcesses)
			r.Soft, r.Hard = min(r.Soft, most), min(r.Hard, most)
		}
		kept = append(kept, r)
	}
	if d.UserProcesses > 0 && d.Limits[job.MaxProc].Unset {
		kept = append(kept, Rlimit{job.MaxProc, unix.RLIMIT_NPROC, "RLIMIT_NPROC", uint64(d.UserProcesses), uint64(d.UserProcesses)})
	}
	return kept
}

// fence is how far behind h_cpu, in seconds, that of each process is: as much as
// the job can use on all processors in the time that it has for its end once it
// has reached the limit, and a little for the kernel's clocks, which differ.
func fence(d *job.Description, limit uint64, processors int) uint64 {
	const least = 2
	seconds := max(least, limit/50)
	if d.TerminateMethod != "" || d.Notify > 0 {
		seconds += uint64((d.LimitGrace+d.Notify)/time.Second) * uint64(max(processors, 1))
	}
	return seconds
}
