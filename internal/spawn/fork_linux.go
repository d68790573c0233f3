package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	numSignals    = 64
	exitNotExeced = 255
)

// kernelSigaction is struct sigaction as rt_sigaction(2) takes it.
type kernelSigaction struct {
	handler, flags, restorer, mask uintptr
}

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal uint64
	stack, stackSize, tls, setTID, setTIDSize     uint64
	cgroup                                        uint64
}

// fork clones the process, into the control group of the descriptor cgroup if that is not negative. The
// child makes the calls one after another and never returns. If a call fails, the child writes the call's
// index and errno to reportTo and exits.
//
// Between fork and exec, the child is one thread of a program that had several: it must not allocate, grow
// its stack, take a lock or be preempted. Therefore it makes no other call than RawSyscall6 and writes
// nothing that contains a pointer, and all signals are blocked until none has a handler any more (Go's
// preemption has one). As in forkAndExecInChild of package syscall, which has the same rules, the stack
// check at the entry of the function, in the parent, covers the child.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(calls []call, envp []uintptr, reportTo uintptr, cgroup int) (uintptr, syscall.Errno) {
	var (
		all, old uint64
		action   kernelSigaction
		res      uintptr
		errno    syscall.Errno
		last     syscall.Errno // of the call before, for call.after
		failed   report
		args     cloneArgs
		pid      uintptr
		copying  bool
		written  uintptr
		forkErr  syscall.Errno
	)
	const sigsetSize = unsafe.Sizeof(all)
	all = ^uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), sigsetSize, 0, 0)

	if cgroup >= 0 {
		args.flags, args.exitSignal, args.cgroup = unix.CLONE_INTO_CGROUP, uint64(syscall.SIGCHLD), uint64(cgroup)
		pid, _, forkErr = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0, 0, 0, 0)
	} else {
		pid, _, forkErr = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if forkErr != 0 || pid != 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
			uintptr(unsafe.Pointer(&old)), 0, sigsetSize, 0, 0)
		return pid, forkErr
	}

	// The child. A job starts with default dispositions and without blocked signals, whatever its
	// supervisor inherited. The calls for SIGKILL and SIGSTOP fail, which is ignored.
	for sig := uintptr(1); sig <= numSignals; sig++ {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	}
	failed.index = -1
	for i := range calls {
		c := &calls[i]
		if (c.after != 0 && uintptr(last) != c.after) || (c.entersGroup && cgroup >= 0) {
			continue
		}
		if c.nr == callTell {
			failed.index = int32(i)
			_, _, _ = syscall.RawSyscall6(unix.SYS_WRITE, reportTo, uintptr(unsafe.Pointer(&failed)), unsafe.Sizeof(failed), 0, 0, 0)
			failed.index = -1
			continue
		}
		if c.nr == callCopy {
			copying = true
			break
		}
		res, _, errno = syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if errno == 0 && c.want != anyResult && res != c.want {
			errno = syscall.EBADF
		}
		if errno == 0 && c.refuse != 0 {
			errno = syscall.Errno(c.refuse)
		}
		if errno == 0 {
			if c.patch != 0 {
				envp[c.patch-1] = c.patchWith
			}
			if c.after == 0 {
				last = 0
			}
			continue
		}
		last = errno
		if c.nr == unix.SYS_EXECVE {
			// Of several candidates the first error counts, except that any later error replaces
			// "no such file", which tells less.
			if failed.index < 0 || failed.errno == int32(syscall.ENOENT) ||
				failed.errno == int32(syscall.ENOTDIR) || failed.errno == int32(syscall.ENOEXEC) {
				failed.index, failed.errno = int32(i), int32(errno)
			}
			continue
		}
		if c.tolerate != anyErrno && c.tolerate != uintptr(errno) {
			failed.index, failed.errno = int32(i), int32(errno)
			break
		}
	}
	if copying {
		// Other processes wait until the parent's descriptors are closed, including the pipe for
		// reports.
		const most = 4096
		c := &calls[len(calls)-1]
		first, to, buf := c.args[0], c.args[1], c.args[2]
		_, _, errno = syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, first, uintptr(^uint32(0)), 0, 0, 0, 0)
		for fd := first; errno != 0 && fd < most; fd++ { // before Linux 5.9
			_, _, _ = syscall.RawSyscall6(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
		}
		for errno = 0; errno == 0; {
			res, _, errno = syscall.RawSyscall6(unix.SYS_READ, 0, buf, c.args[3], 0, 0, 0)
			if errno == 0 && res == 0 {
				break
			}
			for done := uintptr(0); errno == 0 && done < res && to != 0; done += written {
				written, _, errno = syscall.RawSyscall6(unix.SYS_WRITE, to, buf+done, res-done, 0, 0, 0)
			}
		}
		for {
			_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0, 0, 0, 0)
		}
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_WRITE, reportTo, uintptr(unsafe.Pointer(&failed)), unsafe.Sizeof(failed), 0, 0, 0)
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, exitNotExeced, 0, 0, 0, 0, 0)
	}
}
