package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Manual is a clock that stands still until Advance is called. It is for tests.
// Make one with NewManual.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*manualTimer
	changed chan struct{} // closed and replaced when a timer is set or stopped
}

// NewManual returns a clock that shows the given time.
func NewManual(now time.Time) *Manual {
	return &Manual{now: now, changed: make(chan struct{})}
}

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// NewTimer implements Clock. A timer of no time is due at once.
func (m *Manual) NewTimer(d time.Duration) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{clock: m, length: d, due: m.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- m.now
		return t
	}
	m.timers = append(m.timers, t)
	m.tell()
	return t
}

// Advance lets time pass. Timers that are due meanwhile fire in their order.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	slices.SortStableFunc(m.timers, func(a, b *manualTimer) int { return a.due.Compare(b.due) })
	for len(m.timers) > 0 && !m.timers[0].due.After(m.now) {
		m.timers[0].c <- m.timers[0].due
		m.timers = m.timers[1:]
	}
	m.tell()
}

// WaitFor returns once a timer that was set to d has a waiter.
func (m *Manual) WaitFor(ctx context.Context, d time.Duration) error {
	for {
		m.mu.Lock()
		found := slices.ContainsFunc(m.timers, func(t *manualTimer) bool { return t.length == d })
		changed := m.changed
		m.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Manual) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

type manualTimer struct {
	clock  *Manual
	length time.Duration
	due    time.Time
	c      chan time.Time
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.timers = slices.DeleteFunc(t.clock.timers, func(o *manualTimer) bool { return o == t })
	select {
	case <-t.c:
	default:
	}
	t.clock.tell()
}
