package cgroup

import (
	"github.com/execd-project/execd/job"
)

// Limits are the limits that the group of a job enforces. The zero value limits nothing.
type Limits struct {
	// RSS is h_rss of the whole job: RAM, in bytes. The kernel swaps out what is
	// above, where there is swap, and kills when it cannot.
	RSS uint64
	// Vmem is h_vmem of the whole job as memory, not address space: RAM and swap
	// together, in bytes. v2 has no limit of the sum: there as much of Vmem as RSS
	// leaves is swap, none if there is no RSS.
	Vmem uint64
	// CPUWeight is the share of the CPUs against other groups, 1 to 10000; 0
	// leaves the default, 100.
	CPUWeight uint64
	// Pids limits processes and threads.
	Pids uint64
	// CPUs and Mems bind the job, as lists ("0-3,8"); of two only one may be set.
	CPUs, Mems string
	// Deny are devices that the job may not open.
	Deny []Device
	// Counted and CPUCounted have memory and CPU time counted also where that is
	// not free: for somebody who watches them.
	Counted, CPUCounted bool
}

// Device is a device, or several.
type Device struct {
	Block        bool  // block device; else character device
	Major, Minor int64 // -1 for all
}

// ram returns the limit of RAM alone; both together may not be above Vmem.
func (l *Limits) ram() uint64 {
	switch {
	case l.RSS == 0:
		return l.Vmem
	case l.Vmem == 0:
		return l.RSS
	}
	return min(l.RSS, l.Vmem)
}

// Name returns the name of a job's group: "job.task", which is also that of its
// directory below active_jobs. A task of a parallel job has one beside that of the
// job, since a group with processes can have no groups in it.
func Name(id job.ID) string {
	name := itoa(id.Job) + "." + itoa(id.TaskDir())
	if id.PETask != "" {
		name += "." + id.PETask
	}
	return name
}

// need lists the features that limits call for.
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
	add(len(l.Deny) > 0, Devices)
	return list
}
