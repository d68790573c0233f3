package drmaa

import (
	"context"
	"testing"
)

// TestClosed checks that a call that comes while the session is closed fails, and does not wait forever: the
// helper would not exit.
func TestClosed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newSession(ctx)
	cancel()
	s.close()
	if e := s.follow(ctx); e == nil {
		t.Error("a closed session follows the ends of jobs")
	}
}
