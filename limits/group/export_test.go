package group

import "golang.org/x/sys/unix"

// MemoryCharged is the RAM and swap that are charged to the group: what its
// limits are compared with. It includes page cache, which the kernel gives up
// before it kills; to be sure that a job uses so much, ask MemoryUsed.
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

// Signal sends a signal to every process in the group, once to each, and returns
// how many there were. The group is frozen meanwhile, where that is possible, so
// that no process escapes by forking. SIGKILL is better sent by Kill.
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
