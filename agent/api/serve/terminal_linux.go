package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
)

// attach makes a connection one with the terminal of a job.
func attach(ctx context.Context, c *call, q *api.JobRequest) (any, *api.Error) {
	id, err := translateID(q.ID, false)
	if err != nil {
		return nil, err
	}
	if !c.peer.manager {
		if err := c.checkOwn(id); err != nil {
			return nil, err
		}
	}
	if h := c.r.Header; !strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade") || h.Get("Upgrade") != api.TerminalProtocol {
		return nil, refuse(api.InvalidArgument, "Upgrade: %q, expected %s and Connection: Upgrade", h.Get("Upgrade"), api.TerminalProtocol)
	}
	// Of a connection that is taken over net/http still cancels the request when it has been
	// closed, which is for receive to say: only the wait for the job is the request's.
	held, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	forget := c.server.onStop(cancel)
	defer forget()
	waiting, stop := context.WithCancel(ctx)
	defer context.AfterFunc(held, stop)()
	t, e := c.server.commands.Attach(waiting, id)
	stop()
	if e != nil {
		return nil, failure(e)
	}
	conn, buffered, e := c.control.Hijack()
	if e != nil {
		t.Detach()
		return nil, refuse(api.Internal, "cannot take over the connection: %v", e)
	}
	c.begun = true
	s := &terminalStream{call: c, conn: conn, reader: buffered.Reader, terminal: t, id: id}
	s.run(held, cancel)
	return nil, nil
}

// terminalStream is a connection with a terminal.
type terminalStream struct {
	call     *call
	conn     net.Conn
	reader   *bufio.Reader
	terminal agent.Terminal
	id       job.ID

	sending sync.Mutex     // serialises writers of conn
	others  sync.WaitGroup // the receiving goroutines
	wrong   error          // an invalid frame of the peer; read it after others.Wait
}

// run copies in both directions until one of them ends. over ends the context.
func (s *terminalStream) run(ctx context.Context, over func()) {
	defer s.conn.Close()
	_ = s.conn.SetDeadline(time.Time{})
	head := "HTTP/1.1 " + "101 " + http.StatusText(http.StatusSwitchingProtocols) + "\r\nConnection: Upgrade\r\nUpgrade: " + api.TerminalProtocol + "\r\n"
	if s.terminal.Pipes() {
		head += api.PipesHeader + ": 1\r\n"
	}
	head += "\r\n"
	s.limit()
	if _, err := s.conn.Write([]byte(head)); err != nil {
		s.terminal.Close()
		return
	}
	// A slow reader has unlimited time: a pager, a terminal that a user has stopped, the connection of a
	// sleeping laptop. The job waits as it does for any terminal, and no output is lost.
	_ = s.conn.SetWriteDeadline(time.Time{})
	s.others.Go(func() {
		defer over() // show no longer has to wait
		s.receive()
	})
	// When the agent ends, show is woken by this.
	stop := context.AfterFunc(ctx, func() {
		s.limit()
		s.terminal.Leave()
	})
	defer stop()
	s.others.Go(func() {
		// Without the terminal there is nothing to wait for.
		if _, err := s.terminal.Exit(ctx); err != nil {
			s.limit()
		}
	})
	s.show(ctx)
	s.deaf()
}

// deaf waits until the receivers have ended, and sends the peer the error of an invalid frame.
func (s *terminalStream) deaf() {
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	s.others.Wait()
}

// limit sets the deadline by which the peer must read all further output.
func (s *terminalStream) limit() {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.call.server.options.Limits.Write))
}

// send writes a frame.
func (s *terminalStream) send(t api.FrameType, payload []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return api.WriteFrame(s.conn, t, payload)
}

// receive passes the peer's frames on, and leaves the terminal when the peer disconnects. If the
// terminal accepts no more input, show reports that.
func (s *terminalStream) receive() {
	input := newInput()
	defer input.close()
	if s.terminal.Pipes() {
		s.others.Go(func() { s.feed(input) })
	}
	buffer := make([]byte, api.MaxFrame)
	for {
		f, err := api.ReadFrame(s.reader, buffer)
		if err != nil {
			if !isEnd(err) {
				s.wrong = err
			}
			s.terminal.Close()
			return
		}
		switch {
		case f.Type == api.FrameData && s.terminal.Pipes():
			if !input.add(f.Payload) { // the peer exceeds the window
				s.wrong = fmt.Errorf("the client sent more than %d bytes of input, or input after its end", api.InputWindow)
				s.terminal.Close()
				return
			}
			continue
		case f.Type == api.FrameEnd && s.terminal.Pipes():
			input.end()
			continue
		}
		switch f.Type {
		case api.FrameData:
			_, _ = s.terminal.Write(f.Payload)
		case api.FrameResize:
			_ = s.terminal.Resize(f.Size())
		case api.FrameDetach:
			s.terminal.Detach()
			return
		default: // one for clients
			s.wrong = fmt.Errorf("frame type %q is not one that clients send", byte(f.Type))
			s.terminal.Close()
			return
		}
	}
}

// isEnd reports whether a read error means that the peer has disconnected, and not an invalid
// frame.
func isEnd(err error) bool {
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// feed passes the input to the job. It runs separately, so that receive notices a disconnected peer
// even while the job does not read.
func (s *terminalStream) feed(input *input) {
	for {
		p, ended := input.take()
		if len(p) > 0 {
			n, err := s.terminal.Write(p)
			over := errors.Is(err, agent.ErrDetached) || errors.Is(err, agent.ErrTaken)
			if !over { // a job that has closed its standard input counts as having read the input
				n = len(p)
			}
			input.taken(n)
			if s.send(api.FrameTaken, api.TakenPayload(n)) != nil || over {
				return
			}
			continue
		}
		if ended {
			_ = s.terminal.EndInput()
		}
		return
	}
}

// show passes the job's output on, and at its end sends the reason.
func (s *terminalStream) show(ctx context.Context) {
	shown := make(chan error, 1)
	go func() { shown <- s.copy(s.terminal.ReadErrors, api.FrameStderr) }()
	err := s.copy(s.terminal.Read, api.FrameData)
	// The job may have closed one of them before it was the other's turn to fail.
	if e := <-shown; errors.Is(err, io.EOF) {
		err = e
	}
	switch {
	case errors.Is(err, errGone):
	case errors.Is(err, io.EOF):
		s.exit(ctx)
	default:
		s.lost(err)
	}
}

// lost returns the reason why the peer no longer has the terminal.
func (s *terminalStream) lost(err error) {
	s.deaf()
	if s.wrong != nil {
		s.fail(refuse(api.InvalidArgument, "%v", s.wrong))
		return
	}
	code := api.Unavailable
	if errors.Is(err, agent.ErrTaken) {
		code = api.Aborted
	}
	s.fail(refuse(code, "%v", err))
}

// errGone means that the peer has disconnected.
var errGone = errors.New("the client has disconnected")

// copy passes on the results of read, until read fails or the peer disconnects.
func (s *terminalStream) copy(read func([]byte) (int, error), as api.FrameType) error {
	buffer := make([]byte, api.MaxFrame)
	for {
		n, err := read(buffer)
		if n > 0 && s.send(as, buffer[:n]) != nil {
			s.terminal.Close()
			return errGone
		}
		if err != nil {
			return err
		}
	}
}

func (s *terminalStream) fail(e *api.Error) {
	if b, err := json.Marshal(e); err == nil && len(b) <= api.MaxFrame {
		_ = s.send(api.FrameError, b)
	}
}

// exit waits until it is known how the job has ended, and says it.
func (s *terminalStream) exit(ctx context.Context) {
	defer s.terminal.Detach()
	o, err := s.terminal.Exit(ctx)
	if err != nil {
		s.lost(err)
		return
	}
	_ = s.send(api.FrameExit, api.ExitPayload(o.ExitStatus, o.Reason))
}
