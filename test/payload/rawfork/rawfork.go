// Package rawfork creates processes by fork alone, hundreds in a millisecond, for tests that must
// find all of them.
//
// A child has only the thread that called Fork, so it must not use Go's runtime: no allocation, no channel
// and no print, only raw system calls, such as the functions of this package. The race detector is part of
// the runtime, so functions that run in a child are marked go:norace.
package rawfork

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Quiet must be called before the first fork. It blocks all signals except SIGKILL and SIGSTOP,
// because the runtime uses signals for preemption, and a child has no runtime.
func Quiet() {
	runtime.LockOSThread()
	all := ^uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
}

// Fork calls fork(2). The process ID is 0 in the child. If errno is not 0, no process was created.
//
//go:norace
func Fork() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// Setsid makes the process the leader of a new session.
//
//go:norace
func Setsid() { _, _, _ = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0) }

// Exit ends the process with status 0.
//
//go:norace
func Exit() { _, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) }

// Nap sleeps for less than a second.
//
//go:norace
//go:nocheckptr
func Nap(nsec int64) {
	ts := unix.Timespec{Nsec: nsec}
	_, _, _ = syscall.RawSyscall6(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0, 0, 0, 0)
}

// Wait does nothing, forever.
//
//go:norace
func Wait() {
	for {
		Nap(1e8)
	}
}

// Tree starts n processes that wait, each in a session of its own, and waits, too.
//
//go:norace
func Tree(n int) {
	for range n {
		if pid, _ := Fork(); pid == 0 {
			Setsid()
			Wait()
		}
	}
	Wait()
}

// Chain keeps replacing a process: each process forks and exits; with setsid, each has a session of its
// own. The calling process does not exit, so that its parent can wait for it.
//
//go:norace
func Chain(setsid bool) {
	if pid, _ := Fork(); pid != 0 {
		Wait()
	}
	for {
		if pid, errno := Fork(); pid != 0 && errno == 0 {
			Exit()
		}
		if setsid {
			Setsid()
		}
	}
}
