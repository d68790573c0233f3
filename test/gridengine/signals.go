package gridengine

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSigaction is the struct sigaction of rt_sigaction(2).
type kernelSigaction struct {
	handler, flags, restorer, mask uintptr
}

const sigIgn = 1

// resetInternalSignals restores the default action of signals 32 and 33, which C libraries reserve
// for themselves. Make starts its children with these signals ignored, and the original daemons
// pass that on to their jobs.
func resetInternalSignals() {
	for _, sig := range []uintptr{32, 33} {
		var now, byDefault kernelSigaction
		_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno == 0 && now.handler == sigIgn {
			_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
		}
	}
}
