package cgroup

import (
	"github.com/execd-project/execd/job"
)

// Limits are the limits that the group of a job enforces. The zero value limits nothing.
type Limits struct {
	// RSS is h_rss of the whole job: RAM, in bytes. If the job exceeds it, the kernel swaps memory
	// out, and kills processes if it cannot.
	RSS uint64
	// Vmem is h_vmem of the whole job as memory, not address space: RAM and swap together, in
	// bytes. v2 has no limit for the sum. There the swap limit is Vmem minus RSS; without RSS it is
	// 0, and the RAM limit is Vmem.
	Vmem uint64
	// CPUWeight is the share of the CPUs against other groups, 1 to 10000; 0
	// leaves the default, 100.
	CPUWeight uint64
	// Pids is the maximum number of processes and threads.
	Pids uint64
	// CPUs and Mems bind the job, as lists ("0-3,8"). Either may be empty.
	CPUs, Mems string
	// Deny lists devices that the job may not open.
	Deny []Device
	// Filter makes a group to which Deny (the function) can add devices, also if it denies none yet.
	Filter bool
	// Counted and CPUCounted request that memory and CPU time are counted, even if the kernel needs
	// additional work for it. The supervisor needs them to watch limits.
	Counted, CPUCounted bool
}

// Device identifies one device or several.
type Device struct {
	Block        bool  // block device; else character device
	Major, Minor int64 // -1 means all
}

// ram returns the limit of RAM alone, which cannot exceed Vmem.
func (l *Limits) ram() uint64 {
	switch {
	case l.RSS == 0:
		return l.Vmem
	case l.Vmem == 0:
		return l.RSS
	}
	return min(l.RSS, l.Vmem)
}

// Name returns the name of a job's group: "job.task", the same as the job's directory below
// active_jobs. A task of a parallel job has its group next to the group of the job, since a group
// with processes cannot contain groups.
func Name(id job.ID) string {
	name := itoa(id.Job) + "." + itoa(id.TaskDir())
	if id.PETask != "" {
		name += "." + id.PETask
	}
	return name
}

// need lists the features that the limits require.
func (l *Limits) need() []Feature {
	var list []Feature
	add := func(wanted bool, f Feature) {
		if wanted {
			list = append(list, f)
		}
	}
	add(l.ram() > 0, MemoryLimit)
	add(l.Vmem > 0, SwapLimit)
	add(l.CPUWeight > 0, CPUWeight)
	add(l.Pids > 0, PidsLimit)
	add(l.CPUs != "" || l.Mems != "", Cpuset)
	add(len(l.Deny) > 0 || l.Filter, Devices)
	return list
}
