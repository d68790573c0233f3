package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalDescendant signals a process that was just seen as a descendant of this process. The kernel
// may have reused the number, so SignalDescendant opens a pidfd first, and then checks that the
// process is still a descendant. A child keeps its number until it is reaped, and the caller must
// not reap during the call: a child is signaled at once, so that it has no time to fork.
func SignalDescendant(pid int, sig syscall.Signal) {
	if isChild(pid) {
		_ = unix.Kill(pid, sig)
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			_ = unix.Kill(pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if descends(pid, unix.Getpid()) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// isChild reports whether pid is a child of this process.
func isChild(pid int) bool {
	const options = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT
	return unix.Waitid(unix.P_PID, pid, nil, options, nil) == nil
}

func descends(pid, ancestor int) bool {
	const deep = 1000
	for range deep {
		pid = Read(pid).Parent
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}
