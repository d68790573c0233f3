package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// budget limits the memory of unanswered messages, in bytes, for each peer and for all peers
// together.
type budget struct {
	each, all int64

	mu      sync.Mutex
	of      map[string]int64
	total   int64
	changed chan struct{} // closed when memory was returned
}

func newBudget(each, all int64) *budget {
	return &budget{each: each, all: all, of: map[string]int64{}, changed: make(chan struct{})}
}

var errBudget = errors.New("too many requests at the same time")

// take waits until there is room for a message, at most for patience. A message that is the only one
// has room, whatever its size.
func (b *budget) take(ctx context.Context, key string, size int64, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		b.mu.Lock()
		own, total := b.of[key], b.total
		if (own == 0 || own+size <= b.each) && (total == 0 || total+size <= b.all) {
			b.of[key] += size
			b.total += size
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return errBudget
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give returns the memory of a message that was answered.
func (b *budget) give(key string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[key] -= size; b.of[key] == 0 {
		delete(b.of, key)
	}
	b.total -= size
	close(b.changed)
	b.changed = make(chan struct{})
}
