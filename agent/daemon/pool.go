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
// and the scratch space of the host, so that the meaning of a site's files does not change.
func (c *configuration) buildIn() (err error) {
	if c.base, err = qconf.BuiltinOn(c.host, runtime.NumCPU()); err != nil {
		return err
	}
	memory, err := memoryOfJobs()
	if err != nil {
		return err
	}
	pool, err := c.base.WithMemoryPool(c.host, memory, runtime.NumCPU())
	if err != nil {
		return err
	}
	scratch, err := pool.WithScratch(c.host, freeSpace(tmpdirOfJobs))
	if err != nil {
		return err
	}
	c.builtin, err = scratch.WithPrivateTmp(c.host, c.root)
	return err
}

// tmpdirOfJobs is where the built-in queue has the temporary directories of jobs.
const tmpdirOfJobs = "/tmp"

// freeSpace returns how much a file system can still take of ordinary users, in bytes; 0 if that
// cannot be found out.
func freeSpace(dir string) uint64 {
	var info unix.Statfs_t
	if err := unix.Statfs(dir, &info); err != nil || info.Bsize <= 0 {
		return 0
	}
	return info.Bavail * uint64(info.Bsize)
}

// memoryOfJobs returns the amount of memory of this host that jobs can have, in bytes.
func memoryOfJobs() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("cannot determine how much memory the host has: %w", err)
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
