package limits

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// OfProcess returns the resource limits of each process of a job, if the supervisor watches the CPU
// time and memory of the whole job. They are the limits of Rlimits, with three exceptions.
//
// RLIMIT_CPU is higher than h_cpu, and takes effect only if the supervisor was killed. With the
// same value the kernel would kill the process first, without terminate method, notification or
// reason. There is no soft limit: the kernel would repeat SIGXCPU every second, and count each
// process of the job separately.
//
// RLIMIT_AS is h_vmem, both soft and hard: at a soft limit of the kernel allocations fail, while
// queue_conf(5) promises SIGXCPU for s_vmem. It is left out if s_vmem and h_vmem limit memory, not
// address space.
//
// RLIMIT_NPROC is at most Description.UserProcesses.
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

// fence returns the number of seconds by which the limit of each process exceeds h_cpu: the CPU
// time that the job can use on all processors while it is being killed, and a little more, because
// the kernel's clocks differ.
func fence(d *job.Description, limit uint64, processors int) uint64 {
	const least = 2
	seconds := max(least, limit/50)
	if d.TerminateMethod != "" || d.Notify > 0 {
		seconds += uint64((d.LimitGrace+d.Notify)/time.Second) * uint64(max(processors, 1))
	}
	return seconds
}
