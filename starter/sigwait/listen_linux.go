//go:build amd64 || arm64

package sigwait

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// Addresses of what is in assembly.
var handlerAddr, restorerAddr uintptr

// kernelSigaction is struct sigaction as rt_sigaction(2) takes it.
type kernelSigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	saRestart  = 0x10000000
	saOnStack  = 0x08000000
	saRestorer = 0x04000000

	sigsetSize = unsafe.Sizeof(uint64(0))

	futexWaitPrivate = 0 | 128
)

// Listen begins to collect signals. The calling thread does not block them,
// whatever the mask was that the process was started with.
func Listen(signals ...syscall.Signal) (*Listener, error) {
	// On the signal stack: those of goroutines are too small for a signal
	// frame. Restarting, as Go's own handlers: no system call fails for it.
	action := kernelSigaction{
		handler: handlerAddr, restorer: restorerAddr,
		flags: saOnStack | saRestart | saRestorer, mask: ^uint64(0),
	}
	var set uint64
	for _, sig := range signals {
		set |= 1 << (sig - 1)
		_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
			uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
		if errno != 0 {
			return nil, &oslite.CallError{Call: "rt_sigaction", Err: errno}
		}
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_UNBLOCK,
		uintptr(unsafe.Pointer(&set)), 0, sigsetSize, 0, 0)
	if errno != 0 {
		return nil, &oslite.CallError{Call: "rt_sigprocmask", Err: errno}
	}
	return &Listener{}, nil
}

// collect has nothing to do: the handler has done it.
func collect() {}

// Wait returns when there is a signal to be taken or the time has come; the
// zero time never comes. It may return early.
func (*Listener) Wait(until time.Time) {
	var timeout *unix.Timespec
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		ts := unix.NsecToTimespec(left.Nanoseconds())
		timeout = &ts
	}
	// An error is none: a signal came before (EAGAIN) or meanwhile (EINTR), or
	// the time is over (ETIMEDOUT).
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&arrived)), futexWaitPrivate, 0,
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}
