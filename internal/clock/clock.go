// Package clock is the time as an argument: packages that wait take a Clock. At run time it is the clock
// of the machine, in a test a clock that the test controls.
//
// Packages without a clock (scheduler, cell) do not use it: they get times as values. All functions
// may be called by several goroutines.
package clock

import (
	"context"
	"time"
)

// Clock returns the time and makes timers.
type Clock interface {
	// Now returns the time. The difference of two times is right even if the wall clock was set between
	// them.
	Now() time.Time
	// NewTimer returns a timer that sends the time on its channel once d has
	// passed.
	NewTimer(d time.Duration) Timer
}

// Timer sends the time on C once.
type Timer interface {
	C() <-chan time.Time
	// Stop cancels the timer, which then sends nothing.
	Stop()
}

// Wait waits for d on a clock. It reports false if ctx ends first.
func Wait(ctx context.Context, c Clock, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// System returns the clock of the machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time                 { return time.Now() }
func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }
func (t systemTimer) Stop()               { t.Timer.Stop() }
