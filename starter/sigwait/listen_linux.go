//go:build amd64 || arm64

package sigwait

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// Addresses of assembly functions.
var handlerAddr, restorerAddr uintptr

// The data and the descriptor that the handler writes to.
var (
	wakeFD int32  = -1
	one    uint64 = 1 //nolint:unused // the handler uses it
)

// kernelSigaction is the struct sigaction of rt_sigaction(2).
type kernelSigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	saRestart  = 0x10000000
	saOnStack  = 0x08000000
	saRestorer = 0x04000000

	sigsetSize = unsafe.Sizeof(uint64(0))
)

// Listen begins to collect signals. It unblocks them for the calling thread, whatever signal mask
// the process was started with.
func Listen(signals ...syscall.Signal) (*Listener, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &oslite.CallError{Call: "eventfd", Err: err}
	}
	wakeFD = int32(fd)
	// The handler uses the signal stack, because goroutine stacks are too small for a signal frame.
	// With SA_RESTART, as in Go's own handlers, no system call fails because of the handler.
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

// poll waits for the descriptors, until the timeout at the latest. It ignores errors: a signal that
// interrupts it (EINTR) has written to the first descriptor.
func poll(fds []unix.PollFd, timeout *unix.Timespec) {
	_, _ = unix.Ppoll(fds, timeout, nil)
}
