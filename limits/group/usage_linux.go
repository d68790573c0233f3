package group

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that the group has used, including processes that have exited. For a
// process that is running now, the kernel counts the time until its last tick.
func (g *Group) CPU() (time.Duration, error) {
	switch {
	case g.has(CPUStat):
		text, err := g.read(CPUStat)
		if err != nil {
			return 0, err
		}
		usec, ok := value(text, "usage_usec")
		if !ok {
			return 0, &Error{"find usage_usec in", g.paths.File[CPUStat], unix.EINVAL}
		}
		return time.Duration(usec) * time.Microsecond, nil
	case g.has(CPUAcctUsage):
		nsec, err := g.number(CPUAcctUsage)
		return time.Duration(nsec), err
	}
	return 0, &NotSupportedError{"read the CPU time of the group", "cgroup v2 or the cpuacct controller", nil}
}

var errNoMemory = NotSupportedError{"read the memory of the group", "the memory controller", nil}

// Memory is the memory that a group uses, in bytes.
type Memory struct {
	RSS  uint64 // anonymous and shared memory in RAM, in bytes
	Swap uint64
}

// MemoryUsed returns the memory that the group's processes hold, without page cache. It takes
// several times as long as MemoryCharged, because the kernel adds up its counters of all CPUs.
func (g *Group) MemoryUsed() (Memory, error) {
	if !g.has(MemoryStat) {
		e := errNoMemory
		return Memory{}, &e
	}
	text, err := g.read(MemoryStat)
	if err != nil {
		return Memory{}, err
	}
	m, v1 := parseMemoryStat(text)
	if !v1 && g.has(MemorySwapCurrent) {
		m.Swap, err = g.number(MemorySwapCurrent)
	}
	return m, err
}

// parseMemoryStat reads memory.stat of either version. The v1 file has lines for the group alone,
// and lines with the prefix total_ that include the groups below it; its "rss" is anonymous memory
// only (cgroup-v1/memory.rst, 5.2).
func parseMemoryStat(text string) (m Memory, v1 bool) {
	get := func(key string) uint64 {
		n, _ := value(text, key)
		return n
	}
	if rss, ok := value(text, "total_rss"); ok {
		return Memory{RSS: rss + get("total_shmem"), Swap: get("total_swap")}, true
	}
	return Memory{RSS: get("anon") + get("shmem")}, false
}

// OOM describes the kernel's OOM kills in a group.
type OOM struct {
	// Kills is 0 if no process was killed. Use it only to test for that: with memory.oom.group the
	// kernel counts its first victim twice (seen on 6.1).
	Kills uint64
	// Limit names the limit that the group had reached, "h_rss" or "h_vmem", and Value is its value
	// in bytes. Both are empty if the group had not reached its own limit: the host, or a group
	// above, had run out of memory.
	Limit string
	Value uint64
}

// OOM returns the OOM kills in the group. It also rearms the descriptor of Events(OutOfMemory).
//
// On v1 the descriptor becomes ready before the kill, so Kills may still be 0.
func (g *Group) OOM() (OOM, error) {
	var o OOM
	var own, swap bool
	switch {
	case g.has(MemoryEvents):
		text, err := g.read(MemoryEvents)
		if err != nil {
			return o, err
		}
		o.Kills, _ = value(text, "oom_kill")
		// oom counts only events of the group's own limit, oom_kill counts kills for any reason.
		oom, _ := value(text, "oom")
		own = oom > 0
		if own && g.has(MemorySwapEvents) {
			text, err := g.read(MemorySwapEvents)
			if err != nil {
				return o, err
			}
			hits, _ := value(text, "max")
			swap = hits > 0
		}
	case g.has(MemoryOOMControl):
		g.drain()
		text, err := g.read(MemoryOOMControl)
		if err != nil {
			return o, err
		}
		kills, ok := value(text, "oom_kill")
		if !ok {
			return o, &NotSupportedError{"count OOM kills", "Linux 4.13", nil}
		}
		o.Kills = kills
		if swap, err = g.reached(MemoryMemswFailcnt, MemoryMemswMaxUsage, g.paths.VmemLimit); err != nil {
			return o, err
		}
		if own, err = g.reached(MemoryFailcnt, MemoryMaxUsage, g.paths.ram()); err != nil {
			return o, err
		}
		own = own || swap
	default:
		return o, &NotSupportedError{"count OOM kills", "the memory controller", nil}
	}
	if o.Kills > 0 && own {
		o.Limit, o.Value = g.paths.memoryLimit(swap)
	}
	return o, nil
}

// reached reports whether the group has ever reached a v1 limit. Newer kernels do not maintain the
// failure counter: on 6.18 memory.memsw.failcnt remains 0 even after an OOM kill. So reached also
// checks the maximum usage. The kernel charges memory in batches of up to 64 pages, so the maximum
// may be that far below the limit.
func (g *Group) reached(failcnt, most File, limit uint64) (bool, error) {
	const slack = 1 << 20
	n, err := g.optional(failcnt)
	if n > 0 || err != nil || limit == 0 {
		return n > 0, err
	}
	used, err := g.optional(most)
	return used > 0 && used+slack >= limit, err
}

// ram returns the limit of RAM that was set: the lower of h_rss and h_vmem.
func (p *Paths) ram() uint64 {
	if p.RSSLimit > 0 && (p.VmemLimit == 0 || p.RSSLimit < p.VmemLimit) {
		return p.RSSLimit
	}
	return p.VmemLimit
}

// memoryLimit names the limit that was reached. swap says that RAM and swap together have reached
// their limit.
func (p *Paths) memoryLimit(swap bool) (string, uint64) {
	switch {
	case p.VmemLimit > 0 && (swap || p.RSSLimit == 0 || p.RSSLimit >= p.VmemLimit):
		return keyVmemLimit, p.VmemLimit
	case p.RSSLimit > 0:
		return keyRSSLimit, p.RSSLimit
	}
	return "", 0
}

// optional does what number does, but returns 0 if the file is missing.
func (g *Group) optional(f File) (uint64, error) {
	if !g.has(f) {
		return 0, nil
	}
	return g.number(f)
}

// IOWait returns the time during which at least one process of the group was blocked because it
// waited for I/O (Documentation/accounting/psi.rst).
func (g *Group) IOWait() (time.Duration, error) {
	if !g.has(IOPressure) {
		return 0, &NotSupportedError{"read the I/O wait of the group", "cgroup v2 and pressure stall information (psi=1)", nil}
	}
	text, err := g.read(IOPressure)
	if err != nil {
		return 0, err
	}
	return parsePressure(text), nil
}

// parsePressure returns the total of the line "some avg10=0.00 … total=123", which is in
// microseconds.
func parsePressure(text string) time.Duration {
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		if _, total, ok := strings.Cut(line, " total="); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(total), 10, 62)
			return time.Duration(n) * time.Microsecond
		}
	}
	return 0
}

// Refusals counts the forks that the kernel has refused because the group had reached its maximum
// number of threads.
type Refusals struct {
	Forks uint64 // number of refused processes and threads
	Limit uint64 // maximum number of threads; 0 if the group has no limit of its own
}

// Refusals returns the refused forks of the group; the zero value if they cannot be read. Forks
// refused while the group is being killed do not count. Before Linux 6.11, and on v1, Forks
// includes those that the limit of a group above has refused.
func (g *Group) Refusals() (r Refusals) {
	if g.stopped || !g.has(PidsEvents) || !g.has(PidsMax) {
		return g.refused
	}
	text, _ := g.read(PidsEvents)
	r.Forks, _ = value(text, "max")
	text, _ = g.read(PidsMax)
	if r.Limit, _ = number(text); r.Limit == 1<<64-1 {
		r.Limit = 0
	}
	return r
}

// stopForks saves the number of refused forks and the limit of threads before KillOnce sets the limit to 0.
func (g *Group) stopForks() {
	if !g.stopped {
		g.refused = g.Refusals()
		g.limit, _ = g.read(PidsMax)
		g.stopped = true
	}
}

// AllowForks restores the limit of threads that KillOnce may have set to 0, for a process that is to start
// in the group after the kill.
func (g *Group) AllowForks() error {
	limit := strings.TrimSpace(g.limit)
	if limit == "" {
		return nil
	}
	return writeFile(g.paths.File[PidsMax], limit)
}

// Empty reports whether the group has no processes, or was removed. Zombies do not count. It also
// rearms the descriptor of Events(Changed).
func (g *Group) Empty() (bool, error) {
	if g.has(CgroupEvents) {
		text, err := g.read(CgroupEvents)
		if err != nil {
			if gone(err) {
				return true, nil
			}
			return false, err
		}
		if populated, ok := value(text, "populated"); ok {
			return populated == 0, nil
		}
	}
	pids, err := g.PIDs()
	return err == nil && len(pids) == 0, err
}
