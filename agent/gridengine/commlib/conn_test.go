package commlib

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

var (
	master = Endpoint{"ge-master", Qmaster, 1}
	node   = Endpoint{"ge-exec1", Execd, 1}
)

func request() *ConnectRequest {
	return &ConnectRequest{Format: Binary, Type: ConnectMessages, To: master, From: node, Port: 6445, AutoClose: true}
}

// sockets are the two ends of a TCP connection.
func sockets(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// pair returns a connection, both ends of it.
func pair(t *testing.T, client, server Options) (c, s *Conn) {
	t.Helper()
	a, b := sockets(t)
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := Server(b, server, func(*ConnectRequest) ConnectResponse { return ConnectResponse{Condition: Connected} })
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, _, err := Client(t.Context(), a, request(), client)
	if err != nil {
		t.Fatal(err)
	}
	return c, <-accepted
}

func TestMessagesGoBothWays(t *testing.T) {
	c, s := pair(t, Options{}, Options{})
	if s.Peer != node || c.Peer != master || !s.Accepted || c.Accepted {
		t.Errorf("the ends are %v and %v", c.Peer, s.Peer)
	}
	if err := c.Ask(); err != nil {
		t.Fatal(err)
	}
	id, err := c.Send(2, 0, []byte("question"))
	if err != nil || id != 2 {
		t.Fatalf("message %d, %v", id, err)
	}
	m, err := s.Receive()
	if err != nil || m.ID != id || m.Tag != 2 || string(m.Payload) != "question" {
		t.Fatalf("received %+v, %v", m, err)
	}
	if _, err := s.Send(2, id, []byte("answer")); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Receive(); err != nil || m.ResponseTo != id || string(m.Payload) != "answer" {
		t.Fatalf("received %+v, %v", m, err)
	}
	closed := make(chan error, 2)
	for _, end := range []*Conn{c, s} {
		go func() {
			_, err := end.Receive()
			closed <- err
		}()
	}
	c.Close(t.Context())
	for range 2 {
		if err := <-closed; !errors.Is(err, io.EOF) {
			t.Errorf("after the close: %v", err)
		}
	}
	if _, err := c.Send(2, 0, nil); err == nil {
		t.Error("a message was sent after the close")
	}
}

func TestReceiptPrecedesAnswer(t *testing.T) {
	a, b := sockets(t)
	go func() {
		s, err := Server(b, Options{}, func(r *ConnectRequest) ConnectResponse {
			from := r.From
			from.ID = 7
			return ConnectResponse{Condition: Connected, From: from}
		})
		if err != nil {
			t.Error(err)
			return
		}
		m, err := s.Receive()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = s.Send(m.Tag, 0, []byte("task"))
	}()
	r := request()
	r.From.ID = 0
	c, response, err := Client(t.Context(), a, r, Options{})
	if err != nil || c.Local.ID != 7 {
		t.Fatalf("%+v, %v", response, err)
	}
	if _, err := c.send(&Message{Format: Binary, Acknowledge: Receipt, Tag: 6}); err != nil {
		t.Fatal(err)
	}
	if m, err := c.receive(); err != nil || m.Format != AcknowledgeMessage || string(m.Payload) != `<am version="0.1"><mid>1</mid></am>` {
		t.Errorf("first %+v, %v", m, err)
	}
	if m, err := c.receive(); err != nil || string(m.Payload) != "task" {
		t.Errorf("then %+v, %v", m, err)
	}
}

func TestARefusedConnection(t *testing.T) {
	a, b := sockets(t)
	go func() {
		_, _ = Server(b, Options{}, func(*ConnectRequest) ConnectResponse {
			return ConnectResponse{Condition: NotUnique, Text: "already connected"}
		})
	}()
	_, _, err := Client(t.Context(), a, request(), Options{})
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Condition != NotUnique || refused.Text != "already connected" {
		t.Errorf("got %v", err)
	}
}

// TestSilentPeerIsProbedAndClosed checks that a connection without messages is probed, and closed
// if the peer does not answer.
func TestSilentPeerIsProbedAndClosed(t *testing.T) {
	t.Run("a peer that answers is kept", func(t *testing.T) {
		c, s := pair(t, Options{Silence: 20 * time.Millisecond}, Options{Status: func() Status { return Status{Info: "fine"} }})
		questions := make(chan struct{})
		go func() {
			for range 3 {
				if m, err := s.receive(); err == nil {
					_, _ = s.control(m)
				}
				questions <- struct{}{}
			}
			_, _ = s.Send(1, 0, []byte("at last"))
		}()
		go func() {
			for range 3 {
				<-questions
			}
		}()
		if m, err := c.Receive(); err != nil || string(m.Payload) != "at last" {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("a peer that does not is given up", func(t *testing.T) {
		c, _ := pair(t, Options{Silence: 10 * time.Millisecond, Answer: 10 * time.Millisecond}, Options{})
		if _, err := c.Receive(); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("got %v", err)
		}
	})
}

// TestASlowSender checks that a message that arrives byte by byte, and never ends, does not block a
// reader forever.
func TestASlowSender(t *testing.T) {
	a, b := sockets(t)
	go func() {
		s, err := Server(b, Options{Message: 50 * time.Millisecond}, func(*ConnectRequest) ConnectResponse { return ConnectResponse{Condition: Connected} })
		if err == nil {
			_, err = s.Receive()
		}
		if err == nil || !strings.Contains(err.Error(), "not arrived within") {
			t.Errorf("the reader says %v", err)
		}
		b.Close()
	}()
	if _, _, err := Client(t.Context(), a, request(), Options{}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := a.Write([]byte("<gmsh>"[:1])); err != nil {
			break
		}
		if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
			break
		}
	}
}

func TestHandshakeTimeout(t *testing.T) {
	_, b := sockets(t)
	_, err := Server(b, Options{Handshake: 10 * time.Millisecond}, func(*ConnectRequest) ConnectResponse { return ConnectResponse{} })
	if err == nil {
		t.Error("there is a connection")
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	a, _ := sockets(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Client(ctx, a, request(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMessageIDsWrap(t *testing.T) {
	c, s := pair(t, Options{}, Options{})
	c.last = maxID - 1
	for _, want := range []uint32{maxID, 1} {
		if _, err := c.Send(1, 0, nil); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Receive(); err != nil || m.ID != want {
			t.Errorf("got %+v, %v, want the id %d", m, err, want)
		}
	}
}
