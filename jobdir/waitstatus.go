package jobdir

import "syscall"

// WaitStatus is the status of the job's end, in the portable bit field of the original: bit 0
// exited, bit 1 killed by a signal, bit 2 core dumped, bit 3 never ran, bits 4-11 the exit status,
// bits 12-27 the signal in its own numbering. DRMAA and qsub -sync use it.
type WaitStatus uint32

const (
	wExited   WaitStatus = 1 << 0
	wSignaled WaitStatus = 1 << 1
	wCoreDump WaitStatus = 1 << 2

	wExitShift   = 4
	wExitMask    = 0xff
	wSignalShift = 12
	wSignalMask  = 0xffff

	// wUnknownSignal is the number of a signal that is not in the table: the
	// original stores its -1 in 16 bits.
	wUnknownSignal = 0xffff
)

// Exited returns the status of a job that exited with a status of 0 to 255.
func Exited(status int) WaitStatus {
	return wExited | WaitStatus(status&wExitMask)<<wExitShift
}

// Signaled returns the status of a job that was killed by a signal.
func Signaled(sig syscall.Signal, coreDumped bool) WaitStatus {
	w := wSignaled | WaitStatus(portableSignal(sig))<<wSignalShift
	if coreDumped {
		w |= wCoreDump
	}
	return w
}

// FromWait converts the status of a process from wait4(2).
func FromWait(status syscall.WaitStatus) WaitStatus {
	if status.Signaled() {
		return Signaled(status.Signal(), status.CoreDump())
	}
	return Exited(status.ExitStatus())
}

// Exited reports whether the job exited, and with which status.
func (w WaitStatus) Exited() (status int, ok bool) {
	return int(w >> wExitShift & wExitMask), w&wExited != 0
}

// Signaled reports whether a signal killed the job, and which one. sig is 0 for a signal without a
// portable number.
func (w WaitStatus) Signaled() (sig syscall.Signal, ok bool) {
	n := int(w >> wSignalShift & wSignalMask)
	for _, s := range portableSignals {
		if s.number == n {
			sig = s.sig
			break
		}
	}
	return sig, w&wSignaled != 0
}

// CoreDumped reports whether the job dumped core.
func (w WaitStatus) CoreDumped() bool { return w&wCoreDump != 0 }

// portableSignals lists the numbers of 8.1.9. Linux signals that 8.1.9 does not list (VTALRM, PROF,
// SYS, PWR, STKFLT and the real-time signals) have none.
var portableSignals = [...]struct {
	sig    syscall.Signal
	number int
}{
	{syscall.SIGHUP, 901},
	{syscall.SIGINT, 902},
	{syscall.SIGQUIT, 903},
	{syscall.SIGILL, 904},
	{syscall.SIGTRAP, 905},
	{syscall.SIGABRT, 906},
	{syscall.SIGFPE, 909},
	{syscall.SIGKILL, 910},
	{syscall.SIGBUS, 911},
	{syscall.SIGSEGV, 912},
	{syscall.SIGPIPE, 914},
	{syscall.SIGALRM, 915},
	{syscall.SIGTERM, 916},
	{syscall.SIGURG, 917},
	{syscall.SIGSTOP, 918},
	{syscall.SIGTSTP, 919},
	{syscall.SIGCONT, 920},
	{syscall.SIGCHLD, 921},
	{syscall.SIGTTIN, 922},
	{syscall.SIGTTOU, 923},
	{syscall.SIGIO, 924},
	{syscall.SIGXCPU, 925},
	{syscall.SIGXFSZ, 926},
	{syscall.SIGWINCH, 929},
	{syscall.SIGUSR1, 931},
	{syscall.SIGUSR2, 932},
}

func portableSignal(sig syscall.Signal) int {
	for _, s := range portableSignals {
		if s.sig == sig {
			return s.number
		}
	}
	return wUnknownSignal
}
