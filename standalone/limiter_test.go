package standalone

import (
	"context"
	"errors"
	"testing"
)

func TestTurns(t *testing.T) {
	all := newCallLimiter(2)
	take := func(uid uint32) {
		t.Helper()
		if err := all.take(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
	take(1)
	take(1)
	if all.try(1) {
		t.Error("a third turn of the same user")
	}
	take(2) // nobody waits for others
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := all.take(gone, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got := make(chan error)
	go func() { got <- all.take(t.Context(), 1) }()
	all.give(1)
	if err := <-got; err != nil {
		t.Error(err)
	}
	all.give(1)
	all.give(1)
	all.give(2)
	if len(all.of) != 0 {
		t.Errorf("%d users are left", len(all.of))
	}
}
