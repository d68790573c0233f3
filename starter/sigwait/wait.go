package sigwait

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Wait returns when a signal can be taken, when one of the descriptors is ready (poll(2); see its
// Revents), or at the time until; the zero time means no timeout. It may return early.
func (l *Listener) Wait(until time.Time, fds ...unix.PollFd) []unix.PollFd {
	if atomic.LoadUint32(&arrived) != 0 {
		return nil
	}
	var timeout *unix.Timespec
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		ts := unix.NsecToTimespec(left.Nanoseconds())
		timeout = &ts
	}
	l.fds = append(append(l.fds[:0], unix.PollFd{Fd: wakeFD, Events: unix.POLLIN}), fds...)
	poll(l.fds, timeout)
	if l.fds[0].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(int(wakeFD), b[:])
	}
	return l.fds[1:]
}
