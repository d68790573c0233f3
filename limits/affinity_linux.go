package limits

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/topology"
)

// wordBits is the number of processors in an element of a CPUSetDynamic.
const wordBits = int(8 * unsafe.Sizeof(unix.CPUSetDynamic{}[0]))

// Affinity returns the processors that the calling thread may use. In a container and under
// taskset(1) these are fewer than the host has. There may be more of them than CPU_SETSIZE.
func Affinity() (topology.CPUSet, error) {
	set := unix.NewCPUSet(topology.MaxCPU + 1)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return topology.CPUSet{}, err
	}
	var cpus []int
	for first := 0; first <= topology.MaxCPU; first += wordBits {
		// A loop over all bits would take 65,536 steps, most of them useless.
		for w := uint(set[first/wordBits]); w != 0; w &= w - 1 {
			cpus = append(cpus, first+bits.TrailingZeros(w))
		}
	}
	return topology.Of(cpus...), nil
}

// SetAffinity restricts the calling thread, and the processes that it starts, to the processors.
// The kernel ignores processors that the host or the thread's cpuset lacks; if none remains,
// SetAffinity fails with EINVAL.
func SetAffinity(cpus topology.CPUSet) error {
	set := unix.NewCPUSet(topology.MaxCPU + 1)
	for cpu := range cpus.All {
		set.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(0, set)
}
