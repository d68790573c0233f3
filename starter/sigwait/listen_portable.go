//go:build !linux || !(amd64 || arm64)

package sigwait

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// signals is where package os/signal puts them.
var signals = make(chan os.Signal, 64)

// Listen begins to collect signals.
func Listen(list ...syscall.Signal) (*Listener, error) {
	var of []os.Signal
	for _, sig := range list {
		of = append(of, sig)
	}
	signal.Notify(signals, of...)
	return &Listener{}, nil
}

// collect notes what package os/signal has brought.
func collect() {
	for {
		select {
		case sig := <-signals:
			note(sig)
		default:
			return
		}
	}
}

func note(sig os.Signal) {
	if n, ok := sig.(syscall.Signal); ok && n > 0 && n <= 32 {
		atomic.OrUint32(&arrived, 1<<(n-1))
	}
}

// Wait returns when there is a signal to be taken or the time has come; the
// zero time never comes. It may return early.
func (*Listener) Wait(until time.Time) {
	if atomic.LoadUint32(&arrived) != 0 {
		return
	}
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case sig := <-signals:
		note(sig)
	case <-alarm:
	}
}
