package limits

import (
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/topology"
)

// Affinity returns the processors that the calling thread may use, which is
// less than what the host has in a container and below taskset(1). Hosts with
// more processors than CPU_SETSIZE are served.
func Affinity() (topology.CPUSet, error) {
	set := unix.NewCPUSet(topology.MaxCPU + 1)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return topology.CPUSet{}, err
	}
	var cpus []int
	for cpu := range topology.MaxCPU + 1 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return topology.Of(cpus...), nil
}

// SetAffinity restricts the calling thread, and what it starts, to the
// processors. Those that the host or the thread's cpuset lacks are left out by
// the kernel; where none is left it fails with EINVAL.
func SetAffinity(cpus topology.CPUSet) error {
	set := unix.NewCPUSet(topology.MaxCPU + 1)
	for cpu := range cpus.All {
		set.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(0, set)
}
