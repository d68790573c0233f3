package web

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// dialed is a connection to a gate, and its end behind the gate.
type dialed struct {
	net.Conn
	inside *gated
}

// TestGate connects strangers and known users to a gate for three connections, two of them from one address.
// Strangers make room for others, and known users do not.
func TestGate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(l, 3, 2)
	defer g.Close()
	dial := func(from string) *dialed {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		out, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out.Close() })
		in, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return &dialed{out, in.(*gated)}
	}
	known := func(d *dialed) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.known(d.inside)
	}
	dropped := func(name string, d *dialed) {
		t.Helper()
		_ = d.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := d.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, expected the end of the connection", name, err)
		}
	}
	stays := func(name string, d *dialed) {
		t.Helper()
		if _, err := d.inside.Write([]byte("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, second, third := dial("127.0.0.1"), dial("127.0.0.1"), dial("127.0.0.1")
	dropped("the oldest stranger of an address with too many", first)
	known(second)
	other := dial("127.0.0.2")
	another := dial("127.0.0.3")
	dropped("the oldest stranger of all", third)
	stays("a known user", second)
	known(other)
	known(another)
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	accepted := make(chan net.Conn)
	go func() {
		c, err := g.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	dropped("a stranger among known users alone", &dialed{Conn: out})
	_ = second.inside.Close()
	_ = second.inside.Close() // again, as net/http does
	next, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if c := <-accepted; c == nil || g.n != 3 {
		t.Errorf("after a known user has left: %v, %d connections", c, g.n)
	}
}
