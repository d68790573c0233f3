package commlib

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Options are the settings of a connection. The zero value has the original's times.
type Options struct {
	Limits
	// Handshake bounds the set-up of the connection; 0 is 60 s.
	Handshake time.Duration
	// Message bounds the reading and the writing of one message once it has begun; 0 is
	// 30 s. A long one has a second more for each MiB.
	Message time.Duration
	// WaitForReader lets the writing of a message take as long as the other side likes: it may be a program
	// that its user has stopped.
	WaitForReader bool
	// Silence is the time without messages after which the other side is asked for its status
	// (StatusRequest); 0 means never. If there is no answer within Answer (0 means 60 s), the
	// connection is closed.
	Silence, Answer time.Duration
	// Idle is the time without messages after which the connection is closed; 0 means never.
	Idle time.Duration
	// Status returns the status of this side for a StatusResponse; nil is for a status without
	// information. The connection fills in Request.
	Status func() Status
}

// The original's times.
const (
	defaultHandshake = 60 * time.Second
	defaultMessage   = 30 * time.Second
	defaultAnswer    = 60 * time.Second
)

func or(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

// Conn is a connection that has been set up. Receive is for one goroutine, the other
// methods are for any.
type Conn struct {
	Local, Peer Endpoint
	Accepted    bool // the other side has opened it

	options Options
	nc      net.Conn
	r       *bufio.Reader
	started time.Time

	mu      sync.Mutex // of sending
	last    uint32     // ID of the last message that was sent
	closing bool       // this side has announced the end of the connection

	once   sync.Once
	closed chan struct{}
}

// Client performs the handshake on a connection that this side has opened. The error is a
// *RefusedError if the other side refuses it. nc is closed after any error.
func Client(ctx context.Context, nc net.Conn, request *ConnectRequest, o Options) (c *Conn, params *ConnectResponse, err error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer func() {
		stop()
		if err != nil {
			nc.Close()
		}
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	if err := errors.Join(request.To.check(), request.From.check()); err != nil {
		return nil, nil, err
	}
	if err := nc.SetDeadline(time.Now().Add(or(o.Handshake, defaultHandshake))); err != nil {
		return nil, nil, err
	}
	if _, err := nc.Write(AppendConnectRequest(nil, request)); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(nc)
	response, err := ReadConnectResponse(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, wrong("the other side closed the connection without an answer to the request for it")
	case err != nil:
		return nil, nil, err
	case response.Condition != Connected:
		return nil, nil, &RefusedError{response.Condition, response.Text}
	}
	local := request.From
	local.ID = response.From.ID
	return newConn(nc, r, local, request.To, false, o), response, nil
}

// Server performs the handshake on an accepted connection. decide returns the answer to a request;
// it need not fill in Text and From to accept. nc is closed after any error.
func Server(nc net.Conn, o Options, decide func(*ConnectRequest) ConnectResponse) (c *Conn, err error) {
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	if err := nc.SetDeadline(time.Now().Add(or(o.Handshake, defaultHandshake))); err != nil {
		return nil, err
	}
	r := bufio.NewReader(nc)
	request, err := ReadConnectRequest(r)
	if err != nil {
		return nil, err
	}
	response := decide(request)
	if response.From == (Endpoint{}) {
		response.From = request.From
	}
	if response.Condition == Connected && response.Text == "" {
		response.Text = "ok"
	}
	if _, err := nc.Write(AppendConnectResponse(nil, &response)); err != nil {
		return nil, err
	}
	if response.Condition != Connected {
		return nil, &RefusedError{response.Condition, response.Text}
	}
	return newConn(nc, r, request.To, response.From, true, o), nil
}

func newConn(nc net.Conn, r *bufio.Reader, local, peer Endpoint, accepted bool, o Options) *Conn {
	return &Conn{
		Local: local, Peer: peer, Accepted: accepted, options: o, nc: nc, r: r,
		started: time.Now(), closed: make(chan struct{}),
	}
}

// Use replaces the options of a connection, before the first Receive: for an accepted connection
// they may depend on the peer.
func (c *Conn) Use(o Options) { c.options = o }

// Send sends a message of the application and returns its ID.
func (c *Conn) Send(tag, responseTo uint32, payload []byte) (uint32, error) {
	return c.send(&Message{Format: Binary, Acknowledge: NoReceipt, Tag: tag, ResponseTo: responseTo, Payload: payload})
}

// ErrClosed is the error of sending after Close.
var ErrClosed = errors.New("the connection has been closed")

func (c *Conn) send(m *Message) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing && m.Format == Binary {
		return 0, ErrClosed
	}
	if c.last++; c.last > maxID {
		c.last = 1
	}
	m.ID = c.last
	text := AppendMessage(nil, m)
	var deadline time.Time
	if !c.options.WaitForReader {
		deadline = time.Now().Add(c.patience(len(text)))
	}
	err := c.nc.SetWriteDeadline(deadline)
	if err == nil {
		_, err = c.nc.Write(text)
	}
	if err != nil { // a part may have been sent: nothing can follow it
		c.Abort()
	}
	if m.Format == CloseRequest {
		c.closing = true
	}
	return m.ID, err
}

// patience returns the timeout for a message of the given length in bytes.
func (c *Conn) patience(length int) time.Duration {
	return or(c.options.Message, defaultMessage) + time.Duration(length>>20)*time.Second
}

// Receive returns the next message of the application, and answers the control
// messages before it. io.EOF is for a connection that was closed by either side. After
// any error the connection is closed.
func (c *Conn) Receive() (*Message, error) {
	for {
		m, err := c.receive()
		if err == nil {
			var done bool
			if done, err = c.control(m); err == nil && !done {
				return m, nil
			}
		}
		if err == nil {
			continue
		}
		select {
		case <-c.closed:
			err = io.EOF
		default:
		}
		c.Abort()
		return nil, err
	}
}

// receive reads a message as soon as there is one.
func (c *Conn) receive() (*Message, error) {
	if err := c.await(); err != nil {
		return nil, err
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(c.patience(0))); err != nil {
		return nil, err
	}
	m, err := ReadMessage(&patientReader{c: c}, c.options.Limits)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = wrong("it has not arrived within %v", or(c.options.Message, defaultMessage))
	}
	return m, err
}

// patientReader extends the deadline of a long message as its data arrives.
type patientReader struct {
	c     *Conn
	begin time.Time
	count int
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	n, err := p.c.r.Read(b)
	if before := p.count >> 20; err == nil {
		if p.count += n; p.count>>20 != before {
			err = p.c.nc.SetReadDeadline(p.begin.Add(p.c.patience(p.count)))
		}
	}
	return n, err
}

// await waits for the first byte of a message.
func (c *Conn) await() error {
	for asked := false; ; asked = true {
		var deadline time.Time
		switch o := &c.options; {
		case asked:
			deadline = time.Now().Add(or(o.Answer, defaultAnswer))
		case o.Silence > 0:
			deadline = time.Now().Add(o.Silence)
		case o.Idle > 0:
			deadline = time.Now().Add(o.Idle)
		}
		if err := c.nc.SetReadDeadline(deadline); err != nil {
			return err
		}
		_, err := c.r.Peek(1)
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case c.options.Silence == 0:
			return fmt.Errorf("no message came from %s within %v", c.Peer, c.options.Idle)
		case asked:
			return fmt.Errorf("%s does not answer: no message came within %v, and none within %v after a request",
				c.Peer, c.options.Silence, or(c.options.Answer, defaultAnswer))
		}
		if err := c.Ask(); err != nil {
			return err
		}
	}
}

// Ask sends a StatusRequest. The answer is taken by Receive.
func (c *Conn) Ask() error {
	_, err := c.send(&Message{Format: StatusRequest, Acknowledge: NoReceipt, Payload: []byte(statusPayload)})
	return err
}

// control answers control messages; done says that m was one. It also acknowledges messages of the
// application that ask for it.
func (c *Conn) control(m *Message) (done bool, err error) {
	switch m.Format {
	case StatusRequest:
		var s Status
		if c.options.Status != nil {
			s = c.options.Status()
		} else {
			s = Status{Started: c.started.Unix(), Running: int64(time.Since(c.started).Seconds()), Connections: 1, Info: NoInfo}
		}
		s.Request = m.ID
		_, err = c.send(&Message{Format: StatusResponse, Acknowledge: NoReceipt, Payload: AppendStatus(nil, &s)})
	case CloseRequest:
		if _, err = c.send(&Message{Format: CloseResponse, Acknowledge: NoReceipt, Payload: []byte(closeResponsePayload)}); err == nil {
			err = io.EOF
		}
	case CloseResponse:
		err = io.EOF
	case StatusResponse, AcknowledgeMessage: // only their arrival counts
	case Binary:
		if m.Acknowledge != NoReceipt {
			_, err = c.send(&Message{Format: AcknowledgeMessage, Acknowledge: NoReceipt, Payload: appendReceipt(nil, m.ID)})
		}
		return false, err
	}
	return true, err
}

// Close announces the end of the connection, and waits until Receive has the answer, or the context
// ends. Another goroutine must be in Receive.
func (c *Conn) Close(ctx context.Context) {
	_, err := c.send(&Message{Format: CloseRequest, Acknowledge: NoReceipt, Payload: []byte(closePayload)})
	if err == nil {
		select {
		case <-c.closed:
		case <-ctx.Done():
		}
	}
	c.Abort()
}

// Abort closes the connection without announcing it.
func (c *Conn) Abort() {
	c.once.Do(func() {
		close(c.closed)
		c.nc.Close()
	})
}

// Done returns a channel that is closed when the connection is closed.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// RemoteAddr returns the address of the other side.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }
