package group

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to every process in the group, including frozen ones. It returns when none is
// left, or with a *BusyError after the timeout. The caller need not reap meanwhile: zombies do not
// count.
//
// A caller that must not block calls KillOnce, waits for the event Changed or a short time, and
// repeats this until Empty.
func (g *Group) Kill(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := 500 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if err := g.KillOnce(); err != nil {
			return err
		}
		empty, err := g.Empty()
		if empty || err != nil {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return g.busy()
		}
		pause(g.fds[CgroupEvents], unix.POLLPRI, min(wait, left))
	}
}

// KillOnce sends SIGKILL to all processes in the group. Since Linux 5.14 this is one write to
// cgroup.kill, and no fork escapes. On older kernels KillOnce first prevents forks: it freezes the
// group, and sets a limit of 0 threads. If neither is possible, a group that forks fast enough can
// survive, and the caller must repeat the call.
func (g *Group) KillOnce() error {
	if g.has(CgroupKill) {
		err := writeFile(g.paths.File[CgroupKill], "1")
		if err == nil || gone(err) {
			// Processes in a frozen v1 group do not even die.
			if g.has(FreezerState) && !g.has(CgroupFreeze) {
				err = g.thaw()
			} else {
				err = nil
			}
			return err
		}
		if !errors.Is(err, unix.EOPNOTSUPP) { // a threaded group
			return err
		}
	}
	if g.has(PidsMax) {
		g.stopForks()
		// KillOnce does not restore the limit: nothing starts in a group that is being killed. See AllowForks.
		if err := writeFile(g.paths.File[PidsMax], "0"); err != nil && !gone(err) && !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	if g.freeze(true) == nil {
		_ = g.awaitFrozen(freezePatience)
	}
	_, err := g.signal(unix.SIGKILL)
	if thaw := g.thaw(); err == nil {
		err = thaw
	}
	return err
}

// thaw calls Thaw, and ignores that the group may not support it.
func (g *Group) thaw() error {
	err := g.freeze(false)
	var none *NotSupportedError
	if errors.As(err, &none) || gone(err) {
		return nil
	}
	return err
}
