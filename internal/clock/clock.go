// Package clock is the time as an argument: packages that wait take a Clock, which
// is the machine's at run time and one of a test's own in a test.
//
// Packages without a clock (scheduler, cell) do not use it: they get times as values. All functions
// may be called by several goroutines.
package clock

import "time"

// Clock tells the time and wakes up.
type Clock interface {
	// Now is the time; differences of two of them are right even if the wall clock
	// is set meanwhile.
	Now() time.Time
	// NewTimer returns a timer that sends the time on its channel once d has
	// passed.
	NewTimer(d time.Duration) Timer
}

// Timer is one wake-up.
type Timer interface {
	C() <-chan time.Time
	// Stop cancels it. Nothing is received from C afterwards.
	Stop()
}

// System returns the clock of the machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time                 { return time.Now() }
func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }
func (t systemTimer) Stop()               { t.Timer.Stop() }
