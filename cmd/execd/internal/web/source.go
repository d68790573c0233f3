package web

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/qstat"
)

// source provides the data of the pages. Pages that need the same data within a short time share
// one answer of the daemon.
type source struct {
	session *qclient.Session

	mu        sync.Mutex
	views     map[string]*view
	histories map[int]*history // by job
}

// view is the output of a command, which may not have arrived yet.
type view struct {
	until time.Time // time at which it expires; zero if it has not arrived
	ready chan struct{}
	doc   *qstat.Document
	err   error
}

// fresh is the minimum time for which a view is reused.
const fresh = time.Second

func newSource(session *qclient.Session) *source {
	return &source{session: session, views: map[string]*view{}, histories: map[int]*history{}}
}

// ask returns the JSON output of a command. The document is shared: callers must not change it.
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
		// Other pages may wait for it too, so it continues if the browser leaves this page.
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

// askTime is the maximum time that a page waits for the daemon.
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

// forget makes the next pages ask the daemon again, after an action.
func (s *source) forget() {
	s.mu.Lock()
	clear(s.views)
	s.mu.Unlock()
}
