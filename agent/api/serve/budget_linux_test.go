package serve

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	b := newBudget(10, 15)
	ctx := t.Context()
	ok := func(key string, size int64) {
		t.Helper()
		if err := b.take(ctx, key, size, time.Minute); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	full := func(key string, size int64) {
		t.Helper()
		if err := b.take(ctx, key, size, time.Nanosecond); !errors.Is(err, errBudget) {
			t.Errorf("%s, %d bytes: %v", key, size, err)
		}
	}
	ok("a", 10)
	full("a", 1) // the share of a is used up
	ok("b", 5)
	full("c", 1) // the total is used up
	b.give("b", 5)
	ok("c", 5)
	b.give("c", 5)
	b.give("a", 10)
	ok("a", 100) // if nothing else is in use, a size may exceed the share and the total
	full("b", 1)

	// A waiting caller gets the bytes that another gives back.
	got := make(chan error, 1)
	go func() { got <- b.take(ctx, "b", 7, time.Minute) }()
	b.give("a", 100)
	if err := <-got; err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.take(gone, "b", 7, time.Minute); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.give("b", 7)
	if b.total != 0 || len(b.of) != 0 {
		t.Errorf("%d bytes are left, %v", b.total, b.of)
	}
}
