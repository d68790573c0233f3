package web

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/qstat"
)

// source provides the data of the pages. Several pages that need the same view of the daemon within
// a short time share it.
type source struct {
	session *qclient.Session

	mu        sync.Mutex
	views     map[string]*view
	histories map[int]*history // by job
}

// view is the output of a command; it may not have arrived yet.
type view struct {
	until time.Time // when it is too old; zero if it is on its way
	ready chan struct{}
	doc   *qstat.Document
	err   error
}

// fresh is how long a view is shown again, at least.
const fresh = time.Second

func newSource(session *qclient.Session) *source {
	return &source{session: session, views: map[string]*view{}, histories: map[int]*history{}}
}

// ask returns the output of a command as JSON. The document is shared: callers must not change it.
func (s *source) ask(ctx context.Context, command ...string) (*qstat.Document, error) {
	key := strings.Join(command, "\x00")
	s.mu.Lock()
	v := s.views[key]
	if v == nil || !v.until.IsZero() && time.Now().After(v.until) {
		for k, old := range s.views {
			if !old.until.IsZero() && time.Now().After(old.until) {
				delete(s.views, k)
			}
		}
		v = &view{ready: make(chan struct{})}
		s.views[key] = v
		// Other pages wait for it, too: it goes on if this one is left.
		go s.fetch(context.WithoutCancel(ctx), v, command)
	}
	s.mu.Unlock()
	select {
	case <-v.ready:
		return v.doc, v.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askTime is the longest time that a page waits for the daemon.
const askTime = 30 * time.Second

func (s *source) fetch(ctx context.Context, v *view, command []string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	begin := time.Now()
	v.doc, v.err = s.session.View(ctx, command[0], command[1:]...)
	s.mu.Lock()
	v.until = time.Now().Add(max(fresh, time.Since(begin)))
	s.mu.Unlock()
	close(v.ready)
}

// forget has the next pages ask the daemon again, after an action.
func (s *source) forget() {
	s.mu.Lock()
	clear(s.views)
	s.mu.Unlock()
}
