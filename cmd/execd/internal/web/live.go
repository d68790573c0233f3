package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// period is the minimum interval at which a page is rendered again. If rendering takes long the
	// interval grows (share), so that open pages use only a part of the daemon's time.
	period = 2 * time.Second
	share  = 10
	// sendTime is the maximum time that a browser may take to receive an event. After that the
	// stream ends.
	sendTime = 20 * time.Second
	// silence is the maximum time without an event. After that a comment shows that the stream is
	// alive.
	silence = 15 * time.Second
	// maxStreams is the maximum number of open streams. Browsers try again later.
	maxStreams = 2048
)

// hub sends pages to browsers when they change (server-sent events). Each page is rendered once for
// all browsers that show it, and only while one does.
type hub struct {
	ctx context.Context
	// A page is rendered while it holds both: one page of a user, and one of all users at a time.
	own, turn chan struct{}
	render    func(ctx context.Context, of string) []byte
	running   sync.WaitGroup

	mu      sync.Mutex
	streams int
	topics  map[string]*topic
}

// topic is a page that at least one browser shows.
type topic struct {
	readers map[chan []byte]bool
	last    []byte
	stop    context.CancelFunc
}

func newHub(ctx context.Context, turn chan struct{}, render func(ctx context.Context, of string) []byte) *hub {
	return &hub{ctx: ctx, own: make(chan struct{}, 1), turn: turn, render: render, topics: map[string]*topic{}}
}

// idle reports whether no browser shows a page.
func (h *hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams == 0
}

// wait waits, after the context is done, until no page is being rendered.
func (h *hub) wait() { h.running.Wait() }

// join adds a reader of a page; ok is false if there are too many.
func (h *hub) join(of string) (news chan []byte, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= maxStreams || h.ctx.Err() != nil {
		return nil, false
	}
	h.streams++
	news = make(chan []byte, 1)
	t := h.topics[of]
	if t == nil {
		ctx, stop := context.WithCancel(h.ctx)
		t = &topic{readers: map[chan []byte]bool{}, stop: stop}
		h.topics[of] = t
		h.running.Go(func() { h.follow(ctx, of, t) })
	}
	t.readers[news] = true
	if t.last != nil {
		news <- t.last
	}
	return news, true
}

func (h *hub) leave(of string, news chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
	t := h.topics[of]
	delete(t.readers, news)
	if len(t.readers) == 0 {
		t.stop()
		delete(h.topics, of)
	}
}

// take waits for the turn to render a page. It reports false once ctx is done.
func (h *hub) take(ctx context.Context) bool {
	select {
	case h.own <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	select {
	case h.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		<-h.own
		return false
	}
}

// follow renders a page repeatedly until no browser shows it.
func (h *hub) follow(ctx context.Context, of string, t *topic) {
	for ctx.Err() == nil {
		if !h.take(ctx) {
			return
		}
		begin := time.Now()
		text := h.render(ctx, of)
		<-h.turn
		<-h.own
		pause := max(period, share*time.Since(begin))
		h.mu.Lock()
		if ctx.Err() == nil && !bytes.Equal(text, t.last) {
			t.last = text
			for news := range t.readers {
				select { // a slow reader gets the newest content
				case <-news:
				default:
				}
				news <- text
			}
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// serve sends the content of the page named by the parameter "of" as events, until the browser
// disconnects.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	of := r.URL.Query().Get("of")
	if !strings.HasPrefix(of, "/") || len(of) > 1000 {
		http.Error(w, "the parameter \"of\" is not a path", http.StatusBadRequest)
		return
	}
	news, ok := h.join(of)
	if !ok {
		http.Error(w, "there are too many open pages", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(of, news)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	alive := time.NewTicker(silence)
	defer alive.Stop()
	for {
		var event []byte
		select {
		case <-r.Context().Done():
			return
		case <-h.ctx.Done():
			return
		case <-alive.C:
			event = []byte(": alive\n\n")
		case text := <-news:
			event = append([]byte("event: content\ndata: "), bytes.ReplaceAll(text, []byte("\n"), []byte("\ndata: "))...)
			event = append(event, "\n\n"...)
		}
		if control.SetWriteDeadline(time.Now().Add(sendTime)) != nil {
			return
		}
		if _, err := w.Write(event); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
	}
}
