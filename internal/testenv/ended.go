package testenv

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Ended waits until the process of a descriptor (pidfd_open(2)) has ended, and reports whether it
// ended within the given time. Signals such as SIGCHLD do not interrupt the wait.
func Ended(pidfd int, within time.Duration) bool {
	for end := time.Now().Add(within); ; {
		left := max(time.Until(end), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}
