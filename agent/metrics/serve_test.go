package metrics

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get asks on a connection of its own.
func get(t *testing.T, l net.Listener) (*http.Response, error) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		r.Body.Close()
	}
	return r, err
}

// TestServeWithSilentClients opens as many silent connections as the server allows. The next client
// waits until one of them is closed.
func TestServeWithSilentClients(t *testing.T) {
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(Options{Agent: busy()}).Serve(ctx, l) }()
	r, err := get(t, l)
	if err != nil || r.StatusCode != 200 || !r.Close {
		t.Fatalf("answer %v (%v); want one that ends the connection", r, err)
	}
	var silent []net.Conn
	for range maxConnections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := get(t, l)
		waits <- err
	}()
	silent[0].Close() // the one that waits gets its place, or that of one which was silent for too long
	if err := <-waits; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := get(t, l); err == nil {
		t.Error("it answers after its end")
	}
}

// broken is a listener that fails.
type broken struct{ net.Listener }

var errBroken = errors.New("broken")

func (broken) Accept() (net.Conn, error) { return nil, errBroken }

func TestServeFails(t *testing.T) {
	l := listen(t)
	err := New(Options{Agent: busy()}).Serve(t.Context(), broken{l})
	if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "cannot serve metrics at 127.0.0.1:") {
		t.Errorf("the error is %v", err)
	}
}
