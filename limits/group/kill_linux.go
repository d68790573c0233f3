package group

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends every process in the group by SIGKILL, frozen ones, too, and returns
// when none is left, or with a *BusyError when the time is over. The caller need
// not reap meanwhile: zombies do not count.
//
// A caller that has other things to do uses KillOnce, waits for the event Changed
// or a moment, and repeats until Empty.
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

// KillOnce sends SIGKILL to all that is in the group. Since Linux 5.14 that is
// one write to cgroup.kill, and the kernel sees to it that no fork escapes. Before
// it, forks are stopped first: by freezing the group, and by a limit of 0 threads.
// Where neither is possible a group that forks fast enough can outlive it, so that
// it has to be repeated.
func (g *Group) KillOnce() error {
	if g.has(CgroupKill) {
		err := writeFile(g.paths.File[CgroupKill], "1")
		if err == nil || gone(err) {
			// In a v1 freezer processes do not even die.
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
		// Not given back: nothing is started in a group that is being killed.
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

// thaw is Thaw where there may be nothing to thaw.
func (g *Group) thaw() error {
	err := g.freeze(false)
	var none *NotSupportedError
	if errors.As(err, &none) || gone(err) {
		return nil
	}
	return err
}
