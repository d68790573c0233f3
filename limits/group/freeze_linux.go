package group

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freezePatience is the timeout for freezing the group before an operation that works better in a
// frozen group, but also works without.
const freezePatience = 50 * time.Millisecond

var errNoFreezer = NotSupportedError{"freeze the group", "cgroup v2 on Linux 5.2, or the freezer controller", nil}

// Freeze stops all processes of the group. It returns when they have stopped, or with a *BusyError
// after the timeout; a process in uninterruptible sleep may be the reason. Such a process stops as
// soon as it can.
//
// Unlike SIGSTOP, the job can neither see nor undo this, and a process that enters the group or is
// forked is frozen as well. Thaw ends it; so does Kill.
func (g *Group) Freeze(deadline time.Duration) error {
	if err := g.freeze(true); err != nil {
		return err
	}
	return g.awaitFrozen(deadline)
}

// Thaw resumes a frozen group.
func (g *Group) Thaw() error { return g.freeze(false) }

// Frozen reports whether all processes of the group are frozen.
func (g *Group) Frozen() (bool, error) {
	switch {
	case g.has(CgroupFreeze) && g.has(CgroupEvents):
		text, err := g.read(CgroupEvents)
		frozen, _ := value(text, "frozen")
		return frozen == 1, err
	case g.has(FreezerState):
		// The kernel updates the state when the file is read: FREEZING becomes FROZEN only then
		// (cgroup-v1/freezer-subsystem.rst).
		text, err := g.read(FreezerState)
		return strings.TrimSpace(text) == "FROZEN", err
	}
	e := errNoFreezer
	return false, &e
}

func (g *Group) freeze(on bool) error {
	switch {
	case g.has(CgroupFreeze):
		return writeFile(g.paths.File[CgroupFreeze], [2]string{"0", "1"}[b2i(on)])
	case g.has(FreezerState):
		return writeFile(g.paths.File[FreezerState], [2]string{"THAWED", "FROZEN"}[b2i(on)])
	}
	e := errNoFreezer
	return &e
}

func (g *Group) awaitFrozen(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		frozen, err := g.Frozen()
		if frozen || err != nil {
			return err
		}
		// Some kernels never report a v2 group without processes as frozen. Nothing runs in it.
		if empty, err := g.Empty(); empty || err != nil {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return g.busy()
		}
		if g.has(CgroupFreeze) {
			pause(g.fds[CgroupEvents], unix.POLLPRI, left)
		} else {
			pause(-1, 0, min(wait, left))
		}
	}
}

// busy returns a BusyError that lists the remaining processes.
func (g *Group) busy() error {
	left, err := g.Left()
	if err != nil {
		return err
	}
	return &BusyError{g.listDir(), left}
}
