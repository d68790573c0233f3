// Package sigwait lets one thread wait for signals, for descriptors, or for a point in time, in a
// single poll(2), without other threads or goroutines.
//
// Other projects should not import this package: it may change at any time.
//
// Package os/signal needs three threads for this, passes each signal through two goroutines, and
// every step switches threads if the waiting goroutine is locked to its thread. A supervisor, of
// which each job has one, would pay for this with start time and memory, and again whenever a child
// exits.
//
// In this package the signal handler, which runs on any thread that the kernel chooses, sets a bit
// in a word and then writes to an eventfd(2). The waiting thread polls this descriptor, so a signal
// that arrives before the poll makes it return at once. The handler consists of a few lines of
// assembly, since Go code cannot run in a signal handler that the Go runtime did not install. On
// processors without such a handler the package uses os/signal.
//
// There is one set of signals per process: Listen is called once, before anything that might use
// os/signal, and one goroutine uses the Listener.
package sigwait

import (
	"math/bits"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived has bit n-1 set for each signal n that has arrived and was not yet taken. Like signals,
// it belongs to the process.
var arrived uint32

// Listener lets its owner take the signals of the process.
type Listener struct {
	fds []unix.PollFd // of the last Wait, for reuse
}

// Take returns the lowest signal that has arrived and was not taken yet; ok is false if there is
// none. As usual for signals, one that arrives twice before it is taken counts once.
func (*Listener) Take() (sig syscall.Signal, ok bool) {
	for {
		word := atomic.LoadUint32(&arrived)
		if word == 0 {
			return 0, false
		}
		n := bits.TrailingZeros32(word)
		if atomic.CompareAndSwapUint32(&arrived, word, word&^(1<<n)) {
			return syscall.Signal(n + 1), true
		}
	}
}
