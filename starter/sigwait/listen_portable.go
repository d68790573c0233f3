//go:build !linux || !(amd64 || arm64)

package sigwait

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// wakeFD is the reading end of a pipe that a signal makes readable.
var wakeFD int32 = -1

// Listen begins to collect signals.
func Listen(list ...syscall.Signal) (*Listener, error) {
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return nil, &oslite.CallError{Call: "pipe", Err: err}
	}
	for _, fd := range ends {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, &oslite.CallError{Call: "fcntl", Err: err}
		}
	}
	wakeFD = int32(ends[0])
	signals := make(chan os.Signal, 64)
	var of []os.Signal
	for _, sig := range list {
		of = append(of, sig)
	}
	signal.Notify(signals, of...)
	// The goroutine runs as long as the process.
	go func() {
		for sig := range signals {
			if n, ok := sig.(syscall.Signal); ok && n > 0 && n <= 32 {
				atomic.OrUint32(&arrived, 1<<(n-1))
				_, _ = unix.Write(ends[1], []byte{1})
			}
		}
	}()
	return &Listener{}, nil
}

// poll waits for the descriptors, until the timeout at the latest.
func poll(fds []unix.PollFd, timeout *unix.Timespec) {
	ms := -1
	if timeout != nil {
		ms = int((timeout.Nano() + 999_999) / 1e6)
	}
	_, _ = unix.Poll(fds, ms)
}
