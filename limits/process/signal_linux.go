package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalDescendant signals a process that was just seen below us. A number can
// have been given to a stranger meanwhile, so the process is held by a pidfd first
// and then has to be a descendant of ours still. A child's number is its own until
// it is collected, which nobody may do meanwhile: there no time is lost that it
// could use to fork.
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

// isChild reports whether a process is our child.
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
