package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the server: every user of this host may connect, and a hostile one must not take the
// agent's descriptors and time.
const (
	maxConnections = 32
	maxRequests    = 4 // that are being answered
	headerTimeout  = 5 * time.Second
	answerTimeout  = 10 * time.Second
	maxHeader      = 16 << 10
)

// Serve answers on a listener until the context ends, and closes it.
func (m *Metrics) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: m.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: 2 * answerTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // mistakes of peers are not problems of the agent
	}
	server.SetKeepAlivesEnabled(false) // an idle connection would block others
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		server.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	err := server.Serve(&bounded{Listener: l, free: make(chan struct{}, maxConnections)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve metrics at %s: %w", l.Addr(), err)
}

// Handler only answers GET requests for /metrics and /healthz.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", http.TimeoutHandler(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxRequests,
	}), answerTimeout, "the agent does not answer\n"))
	mux.Handle("GET /healthz", m.health(answerTimeout))
	return mux
}

// Status is the answer of /healthz.
type Status struct {
	// Status is "ok", "draining" if the host was ordered to take no jobs, or "trouble". The HTTP
	// status is 503 for "trouble", otherwise 200.
	Status   string   `json:"status"`
	Host     string   `json:"host,omitempty"`
	Version  string   `json:"version,omitempty"`
	Jobs     int      `json:"jobs"` // that hold slots
	Draining string   `json:"draining,omitempty"`
	Troubles []string `json:"troubles,omitempty"`
}

// status queries the agent.
func (m *Metrics) status() Status {
	h := m.options.Agent.Health()
	s := Status{Status: "ok", Host: h.Host, Version: h.Version, Draining: h.Draining, Troubles: m.options.troubles(&h)}
	for state, n := range h.Jobs {
		if state.Live() {
			s.Jobs += n
		}
	}
	// If the agent reports it itself, it is already among the problems.
	if h.ConfigurationError != "" && len(s.Troubles) == 0 {
		s.Troubles = []string{"the configuration cannot be used: " + h.ConfigurationError}
	}
	switch {
	case len(s.Troubles) > 0:
		s.Status = "trouble"
	case s.Draining != "":
		s.Status = "draining"
	}
	return s
}

// health answers in time also when the agent does not.
func (m *Metrics) health(patience time.Duration) http.Handler {
	asking := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		answer := make(chan Status, 1)
		select {
		case asking <- struct{}{}:
			go func() {
				defer func() { <-asking }()
				answer <- m.status()
			}()
		case <-ctx.Done():
		}
		select {
		case s := <-answer:
			write(w, s)
		case <-ctx.Done():
			write(w, Status{Status: "trouble", Troubles: []string{"the agent has not answered within " + patience.String()}})
		}
	})
}

func write(w http.ResponseWriter, s Status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(s.Troubles) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s) // the peer may have disconnected
}

// bounded is a listener with a bound to the number of connections: more wait in the
// kernel.
type bounded struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	b.free <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.free
		return nil, err
	}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-b.free })}, nil
}

type conn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
