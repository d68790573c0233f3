package gridengine

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSigaction is struct sigaction as rt_sigaction(2) takes it.
type kernelSigaction struct {
	handler, flags, restorer, mask uintptr
}

const sigIgn = 1

// resetInternalSignals gives signals 32 and 33, which C libraries keep for
// themselves, their default action where they are ignored. Make starts what it
// starts like that, and daemons of the original pass it on to their jobs.
func resetInternalSignals() {
	for _, sig := range []uintptr{32, 33} {
		var now, byDefault kernelSigaction
		_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno == 0 && now.handler == sigIgn {
			_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
		}
	}
}
