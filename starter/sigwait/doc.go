// Package sigwait lets one thread wait for signals, for descriptors, or for a
// point in time, in one poll(2), without any help from other threads and without
// goroutines.
//
// Other projects should not import this package: it may change at any time.
//
// Package os/signal needs three threads for that, each signal goes through two
// goroutines, and for a process that waits with its thread locked every step
// switches threads. A supervisor that runs once per job pays for this in its
// start time, in its memory, and again at the end of each child.
//
// Here the handler of a signal, which runs on whatever thread the kernel
// chooses, sets a bit in a word and then writes to an eventfd(2), which is one of
// what the waiter polls: a signal that comes before the poll has it return at
// once. The handler is a few lines of assembly, since Go code cannot run in a
// signal handler that the Go runtime does not know of; on processors for which
// there is none, package os/signal does the work.
//
// There is one set of signals per process: Listen is called once, before
// anything that might use os/signal, and one goroutine uses the Listener.
package sigwait

import (
	"math/bits"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived has bit n-1 set for each signal n that came and was not yet taken.
// It belongs to the process, as signals do.
var arrived uint32

// Listener is the right to take the signals of the process.
type Listener struct {
	fds []unix.PollFd // of the last Wait, to be used again
}

// Take returns the lowest signal that has arrived since it was last taken, or
// ok false when there is none. As everywhere with classic signals, one that
// arrives twice before it is taken is one.
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
