package clock

import (
	"context"
	"testing"
	"time"
)

func TestManual(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := NewManual(start)
	late, early, stopped := m.NewTimer(2*time.Second), m.NewTimer(time.Second), m.NewTimer(time.Second)
	stopped.Stop()
	m.Advance(999 * time.Millisecond)
	select {
	case <-early.C():
		t.Fatal("a timer of one second fired after 999 ms")
	default:
	}
	m.Advance(time.Millisecond)
	if at := <-early.C(); !at.Equal(start.Add(time.Second)) {
		t.Errorf("fired at %v", at)
	}
	if err := m.WaitFor(t.Context(), 2*time.Second); err != nil {
		t.Error(err)
	}
	m.Advance(time.Hour)
	if at := <-late.C(); !at.Equal(start.Add(2 * time.Second)) {
		t.Errorf("fired at %v", at)
	}
	select {
	case <-stopped.C():
		t.Error("a stopped timer fired")
	case <-m.NewTimer(0).C():
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.WaitFor(ctx, 2*time.Second); err == nil {
		t.Error("a timer that has fired is waited for")
	}
}

// TestWait checks that Wait ends with the time, or earlier with its context.
func TestWait(t *testing.T) {
	m := NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan bool, 1)
	wait := func() { waited <- Wait(ctx, m, time.Second) }
	go wait()
	if err := m.WaitFor(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	m.Advance(time.Second)
	if !<-waited {
		t.Error("Wait reports that its context has ended")
	}
	go wait()
	if err := m.WaitFor(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	cancel()
	if <-waited {
		t.Error("Wait reports that the time has passed")
	}
}
