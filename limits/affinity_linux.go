package limits

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/topology"
)

// wordBits is how many processors an element of a CPUSetDynamic has.
const wordBits = int(8 * unsafe.Sizeof(unix.CPUSetDynamic{}[0]))

// Affinity returns the processors that the calling thread may use, which is
// less than what the host has in a container and below taskset(1). Hosts with
// more processors than CPU_SETSIZE are served.
func Affinity() (topology.CPUSet, error) {
	set := unix.NewCPUSet(topology.MaxCPU + 1)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return topology.CPUSet{}, err
	}
	var cpus []int
	for first := 0; first <= topology.MaxCPU; first += wordBits {
		// One at a time it would be 65,536 questions, most of them in vain.
		for w := uint(set[first/wordBits]); w != 0; w &= w - 1 {
			cpus = append(cpus, first+bits.TrailingZeros(w))
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
