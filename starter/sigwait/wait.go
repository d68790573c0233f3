package sigwait

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Wait returns when there is a signal to be taken, when one of the descriptors
// has what it is polled for (poll(2); its Revents say what), or when the time has
// come; the zero time never comes. It may return early.
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
