package daemon

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// buildIn makes the built-in configurations of a master for this host alone: base provides objects
// without files, and builtin is used if there are no files at all. Only builtin has a memory pool
// of the host, so that the meaning of a site's files does not change.
func (c *configuration) buildIn() (err error) {
	if c.base, err = qconf.BuiltinOn(c.host, runtime.NumCPU()); err != nil {
		return err
	}
	memory, err := memoryOfJobs()
	if err != nil {
		return err
	}
	c.builtin, err = c.base.WithMemoryPool(c.host, memory, runtime.NumCPU())
	return err
}

// memoryOfJobs returns the amount of memory of this host that jobs can have, in bytes.
func memoryOfJobs() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("cannot find out how much memory the host has: %w", err)
	}
	return withoutReserve(min(uint64(info.Totalram)*uint64(info.Unit), cgroup.MemoryBound())), nil //nolint:unconvert // 32 bits on some architectures
}

// withoutReserve returns a host's memory, in bytes, without the reserve for the kernel, the daemons
// and the supervisors: a sixteenth, at least 512 MiB and at most 8 GiB, but no more than a quarter
// of small hosts.
func withoutReserve(memory uint64) uint64 {
	const mib = 1 << 20
	reserve := min(max(memory/16, 512*mib), 8192*mib, memory/4) //nolint:mnd // see above
	return memory - reserve
}
