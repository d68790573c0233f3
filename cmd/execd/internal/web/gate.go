package web

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sys/unix"
)

// gate is a listener with a maximum number of connections. Strangers make room: if there are too many
// connections, or too many strangers of one address, the oldest connection that has sent no request of a
// user is closed.
type gate struct {
	net.Listener
	most, mostOfAddress int

	mu        sync.Mutex
	n         int
	strangers *list.List // of *gated, the oldest first
}

// gated is a connection through a gate.
type gated struct {
	net.Conn
	gate    *gate
	address string
	place   *list.Element // among the strangers; nil for a known user
	closed  bool
}

const (
	maxConnections  = 4096
	maxOfOneAddress = 128
)

// mostConnections returns the maximum number of connections: a quarter of the open files that this process may
// have, so that browsers leave enough to jobs.
func mostConnections() int {
	const share = 4
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		return int(min(maxConnections, files.Cur/share))
	}
	return maxConnections
}

func newGate(l net.Listener, most, mostOfAddress int) *gate {
	return &gate{Listener: l, most: most, mostOfAddress: mostOfAddress, strangers: list.New()}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &gated{Conn: conn, gate: g, address: conn.RemoteAddr().String()}
		if host, _, err := net.SplitHostPort(c.address); err == nil {
			c.address = host
		}
		if g.admit(c) {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admit counts a new connection, and closes another one if there are too many. It reports false if all
// connections are those of known users.
func (g *gate) admit(c *gated) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := 0
	var oldest, oldestSame *gated
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		other := e.Value.(*gated)
		if oldest == nil {
			oldest = other
		}
		if other.address == c.address {
			if same++; oldestSame == nil {
				oldestSame = other
			}
		}
	}
	switch {
	case same >= g.mostOfAddress:
		g.drop(oldestSame)
	case g.n >= g.most && oldest == nil:
		return false
	case g.n >= g.most:
		g.drop(oldest)
	}
	g.n++
	c.place = g.strangers.PushBack(c)
	return true
}

// drop closes a connection. The caller holds g.mu.
func (g *gate) drop(c *gated) {
	g.forget(c)
	_ = c.Conn.Close()
}

// forget stops counting a connection. The caller holds g.mu.
func (g *gate) forget(c *gated) {
	if c.closed {
		return
	}
	c.closed = true
	g.n--
	g.known(c)
}

// known notes that a connection is that of a user. The caller holds g.mu.
func (g *gate) known(c *gated) {
	if c.place != nil {
		g.strangers.Remove(c.place)
		c.place = nil
	}
}

// Close implements net.Conn.
func (c *gated) Close() error {
	c.gate.mu.Lock()
	c.gate.forget(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

type gatedKey struct{}

// withConnection adds the connection to the contexts of its requests. It is used as
// http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, gatedKey{}, c)
}

// welcome notes that a request is that of a user, or makes its sender one.
func welcome(r *http.Request) {
	if c, ok := r.Context().Value(gatedKey{}).(*gated); ok {
		c.gate.mu.Lock()
		c.gate.known(c)
		c.gate.mu.Unlock()
	}
}
