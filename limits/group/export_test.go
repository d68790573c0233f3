package group

import "golang.org/x/sys/unix"

// MemoryCharged returns the RAM and swap charged to the group, in bytes. The kernel compares it
// with the group's limits. It includes page cache, which the kernel reclaims before it kills; call
// MemoryUsed for the memory that a job really uses.
func (g *Group) MemoryCharged() (uint64, error) {
	switch {
	case g.has(MemoryCurrent):
		n, err := g.number(MemoryCurrent)
		if err == nil && g.has(MemorySwapCurrent) {
			var swap uint64
			swap, err = g.number(MemorySwapCurrent)
			n += swap
		}
		return n, err
	case g.has(MemoryMemswUsage):
		return g.number(MemoryMemswUsage)
	case g.has(MemoryUsage):
		return g.number(MemoryUsage)
	}
	e := errNoMemory
	return 0, &e
}

// Signal sends a signal once to every process in the group, and returns the number of processes. If
// possible, it freezes the group meanwhile, so that no process escapes by forking. Use Kill for
// SIGKILL.
func (g *Group) Signal(sig unix.Signal) (int, error) {
	frozen, err := g.Frozen()
	if err == nil && !frozen {
		if err = g.freeze(true); err == nil {
			defer func() { _ = g.freeze(false) }()
			_ = g.awaitFrozen(freezePatience)
		}
	}
	return g.signal(sig)
}
