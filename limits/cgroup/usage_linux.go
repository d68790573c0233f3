package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
)

// Usage is the usage so far of all processes of a group, including finished ones. A value that the
// host does not count is 0.
type Usage struct {
	CPU, User, System    time.Duration
	Memory, Swap         uint64 // bytes charged now, including page cache
	MemoryPeak           uint64
	ReadBytes, ReadOps   uint64 // from devices, without reads from the page cache
	WriteBytes, WriteOps uint64
	IOWait               time.Duration // in which at least one process waited for I/O (PSI; v2 only)
	OOMKills             uint64
	PidsPeak             uint64 // largest number of threads at the same time
}

// Usage reads the usage so far. It is for the end of a job, before Remove, and for occasional
// calls. Package limits/group reads single values at a lower cost.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	for _, i := range g.used {
		if h := &g.system.Hierarchies[i]; h.Unified {
			if err := g.usage2(i, &u); err != nil {
				return u, fmt.Errorf("cannot read the usage of group %q: %w", g.name, err)
			}
		}
	}
	if err := g.usage1(&u); err != nil {
		return u, fmt.Errorf("cannot read the usage of group %q: %w", g.name, err)
	}
	if dir := g.in(PidsLimit); dir != "" {
		// pids.peak exists since Linux 6.1.
		if f := readFields(filepath.Join(dir, "pids.peak")); len(f) == 1 {
			u.PidsPeak, _ = strconv.ParseUint(f[0], 10, 64)
		}
	}
	return u, nil
}

func (g *Group) usage2(i int, u *Usage) error {
	h := &g.system.Hierarchies[i]
	m, err := cgroup2.Load(g.relative(i), cgroup2.WithMountpoint(h.Mount))
	if err != nil {
		return err
	}
	if _, err := os.Stat(g.dir(i)); err != nil {
		return err // the library returns zeros for a group that was removed
	}
	mask := cgroup2.StatCPU | cgroup2.StatIO
	if g.system.v2(MemoryLimit) {
		mask |= cgroup2.StatMemory | cgroup2.StatMemoryEvents
	}
	s, err := m.StatFiltered(mask)
	if err != nil {
		return err
	}
	if c := s.CPU; c != nil {
		u.CPU = time.Duration(c.UsageUsec) * time.Microsecond
		u.User = time.Duration(c.UserUsec) * time.Microsecond
		u.System = time.Duration(c.SystemUsec) * time.Microsecond
	}
	if mem := s.Memory; mem != nil {
		u.Memory, u.Swap, u.MemoryPeak = mem.Usage, mem.SwapUsage, mem.MaxUsage
	}
	if e := s.MemoryEvents; e != nil {
		u.OOMKills = e.OomKill
	}
	if s.Io != nil {
		for _, e := range s.Io.Usage {
			u.ReadBytes += e.Rbytes
			u.WriteBytes += e.Wbytes
			u.ReadOps += e.Rios
			u.WriteOps += e.Wios
		}
		if s.Io.PSI != nil && s.Io.PSI.Some != nil {
			u.IOWait = time.Duration(s.Io.PSI.Some.Total) * time.Microsecond
		}
	}
	return nil
}

func (g *Group) usage1(u *Usage) error {
	subsystems, path := g.subsystems()
	if len(subsystems) == 0 {
		return nil
	}
	hierarchy := func() ([]cgroup1.Subsystem, error) { return subsystems, nil }
	c, err := cgroup1.Load(path, cgroup1.WithHierarchy(hierarchy))
	if err != nil {
		return err
	}
	s, err := c.Stat(func(err error) error {
		// The other values are still useful if a kernel lacks a file.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if g.system.v1(CPUTime) && s.CPU != nil && s.CPU.Usage != nil {
		u.CPU = time.Duration(s.CPU.Usage.Total)
		u.User, u.System = time.Duration(s.CPU.Usage.User), time.Duration(s.CPU.Usage.Kernel)
	}
	if mem := s.Memory; mem != nil && mem.Usage != nil {
		u.Memory, u.MemoryPeak = mem.Usage.Usage, mem.Usage.Max
		if mem.Swap != nil && mem.Swap.Usage > u.Memory {
			u.Swap = mem.Swap.Usage - u.Memory
		}
	}
	if o := s.MemoryOomControl; o != nil {
		u.OOMKills = o.OomKill
	}
	if g.system.v1(IOUsage) && s.Blkio != nil {
		for _, e := range s.Blkio.IoServiceBytesRecursive {
			count(e.Op, e.Value, &u.ReadBytes, &u.WriteBytes)
		}
		for _, e := range s.Blkio.IoServicedRecursive {
			count(e.Op, e.Value, &u.ReadOps, &u.WriteOps)
		}
	}
	return nil
}

// count adds a value of blkio to its sum. It ignores the lines Sync, Async and Total, which count
// the same values again.
func count(op string, n uint64, read, write *uint64) {
	switch strings.ToLower(op) {
	case "read":
		*read += n
	case "write":
		*write += n
	}
}
