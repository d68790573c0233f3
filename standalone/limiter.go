package standalone

import (
	"context"
	"sync"
)

// The maximum numbers of concurrent calls of one user. Further calls wait, so that a user with a
// thousand calls delays others by a few only.
const (
	// changing is enough for submissions that share a commit.
	changing = 16
	// showing is little: a long list takes long, and its text is in memory until it was read.
	showing = 4
	// waiting is the maximum number of connections that wait for news about jobs. Further calls are
	// answered at once, and the client asks again.
	waiting = 256
)

// callLimiter limits the concurrent calls of each user; further calls wait.
type callLimiter struct {
	most int

	mu sync.Mutex
	of map[uint32]*userSlots
}

// userSlots holds the slots of one user.
type userSlots struct {
	slots chan struct{}
	users int // of this turn, waiting ones too
}

func newCallLimiter(most int) *callLimiter {
	return &callLimiter{most: most, of: map[uint32]*userSlots{}}
}

// take waits for a turn; give ends it.
func (t *callLimiter) take(ctx context.Context, uid uint32) error {
	own := t.enter(uid)
	select {
	case own.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		t.leave(uid, own)
		return ctx.Err()
	}
}

// try takes a turn if there is one.
func (t *callLimiter) try(uid uint32) bool {
	own := t.enter(uid)
	select {
	case own.slots <- struct{}{}:
		return true
	default:
		t.leave(uid, own)
		return false
	}
}

func (t *callLimiter) give(uid uint32) {
	t.mu.Lock()
	own := t.of[uid]
	t.mu.Unlock()
	<-own.slots
	t.leave(uid, own)
}

func (t *callLimiter) enter(uid uint32) *userSlots {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[uid]
	if own == nil {
		own = &userSlots{slots: make(chan struct{}, t.most)}
		t.of[uid] = own
	}
	own.users++
	return own
}

func (t *callLimiter) leave(uid uint32, own *userSlots) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.of, uid)
	}
}
