package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Exit is the result of an interactive job.
type Exit struct {
	Status int    // exit status; 128 plus the signal for a job that a signal ended
	Reason string // why the job has no exit status, or why it was terminated; empty after a normal exit
}

// Terminal is a connection with the terminal of a job: a pseudo terminal, or pipes. One goroutine
// may read while others use the other methods.
type Terminal struct {
	conn   io.ReadWriteCloser
	pipes  bool
	rest   []byte // of the last frame, not read yet
	errors bool   // rest is standard error
	buffer []byte
	err    error // returned by all further reads
	exit   *Exit

	writing sync.Mutex

	window chan struct{} // has an element if there may be room; closed after the last read
	mu     sync.Mutex    // guards the following fields
	room   int           // number of bytes that may still be sent to a job with pipes
	failed bool          // a frame could not be sent
}

// Attach connects the caller with the terminal of an interactive job, as soon as the job has
// started. The agent disconnects a client that was attached before. ctx applies to the call only:
// end the connection with Close or Detach.
func (c *Client) Attach(ctx context.Context, id ID) (*Terminal, error) {
	body, err := json.Marshal(JobRequest{id})
	if err != nil {
		return nil, &Error{Code: InvalidArgument, Message: "cannot encode the message: " + err.Error(), Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+Path+string(MethodAttach), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = c.header.Clone()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", TerminalProtocol)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		if err != nil {
			return nil, c.unreached(ctx, err)
		}
		_, err = refused(response, answer)
		return nil, err
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if !ok || response.Header.Get("Upgrade") != TerminalProtocol {
		response.Body.Close()
		return nil, &Error{Code: Unknown, Message: fmt.Sprintf("the agent %s does not speak %s", c.where, TerminalProtocol)}
	}
	return &Terminal{
		conn: conn, pipes: response.Header.Get(PipesHeader) == "1",
		window: make(chan struct{}, 1), room: InputWindow,
	}, nil
}

// Pipes reports whether the job has pipes instead of a pseudo terminal.
func (t *Terminal) Pipes() bool { return t.pipes }

// Read reads the output of the job. It returns io.EOF at the end of the job; Exit then returns the
// result. An *Error with the code Aborted means that another client has attached. Unavailable means
// that the agent stops or cannot be reached; the job continues. Read does not separate standard
// output and standard error of a job with pipes; Copy does.
func (t *Terminal) Read(p []byte) (int, error) {
	if err := t.fill(); err != nil {
		return 0, err
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Copy writes the standard output and standard error of the job until the job ends. It returns
// errors of Read other than io.EOF, and errors of the writers.
func (t *Terminal) Copy(stdout, stderr io.Writer) error {
	for {
		err := t.fill()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w := stdout
		if t.errors {
			w = stderr
		}
		n, err := w.Write(t.rest)
		t.rest = t.rest[n:]
		if err != nil {
			return err
		}
	}
}

// fill waits for unread data.
func (t *Terminal) fill() error {
	for len(t.rest) == 0 && t.err == nil {
		if t.err = t.next(); t.err != nil {
			close(t.window)
		}
	}
	if len(t.rest) > 0 {
		return nil
	}
	return t.err
}

// next reads a frame and processes it.
func (t *Terminal) next() error {
	if t.buffer == nil {
		t.buffer = make([]byte, MaxFrame)
	}
	f, err := ReadFrame(t.conn, t.buffer)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // io.EOF means the end of a job
	}
	if err != nil {
		return &Error{Code: Unavailable, Message: "the connection to the terminal was closed: " + err.Error(), Err: err}
	}
	switch f.Type {
	case FrameData, FrameStderr:
		t.rest, t.errors = f.Payload, f.Type == FrameStderr
		return nil
	case FrameTaken:
		t.widen(f.Taken())
		return nil
	case FrameExit:
		t.exit = &Exit{}
		t.exit.Status, t.exit.Reason = f.Exit()
		return io.EOF
	case FrameError:
		e := &Error{}
		if err := json.Unmarshal(f.Payload, e); err != nil || e.Code == "" {
			e = &Error{Code: Unknown, Message: "the agent has ended the connection, and does not say why"}
		}
		return e
	}
	return &Error{Code: Unknown, Message: fmt.Sprintf("the agent has sent a frame of type %q, which is for agents", byte(f.Type))}
}

// Exit returns the result of the job after Read has returned io.EOF, and nil before.
func (t *Terminal) Exit() *Exit { return t.exit }

// Write sends input. For a job with pipes it waits while InputWindow bytes are on their way. It
// needs a concurrent Read, which receives the confirmations, and fails if that Read fails.
func (t *Terminal) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		size, err := t.claim(min(len(p)-n, MaxFrame))
		if err == nil {
			err = t.send(FrameData, p[n:n+size])
		}
		if err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.failed = true
			return n, err
		}
		n += size
	}
	return len(p), nil
}

// claim reserves up to size bytes of the window.
func (t *Terminal) claim(size int) (int, error) {
	if !t.pipes {
		return size, nil
	}
	for {
		t.mu.Lock()
		n := min(size, t.room)
		t.room -= n
		t.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if _, open := <-t.window; !open {
			return 0, &Error{Code: Unavailable, Message: "the connection to the terminal has ended"}
		}
	}
}

// widen returns bytes to the window.
func (t *Terminal) widen(n int) {
	t.mu.Lock()
	t.room = min(t.room+n, InputWindow)
	t.mu.Unlock()
	select {
	case t.window <- struct{}{}:
	default:
	}
}

// Arrived reports whether all data given to Write is in the pipe of a job with pipes. There it
// remains even if the agent stops.
func (t *Terminal) Arrived() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.room == InputWindow && !t.failed
}

// EndInput closes the standard input of a job with pipes. It cannot be opened again.
func (t *Terminal) EndInput() error { return t.send(FrameEnd, nil) }

// Resize tells the job the size of the window.
func (t *Terminal) Resize(rows, cols uint16) error {
	return t.send(FrameResize, ResizePayload(rows, cols))
}

func (t *Terminal) send(kind FrameType, payload []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return WriteFrame(t.conn, kind, payload)
}

// Detach closes the connection. The job continues.
func (t *Terminal) Detach() error {
	err := t.send(FrameDetach, nil)
	if e := t.conn.Close(); err == nil {
		err = e
	}
	return err
}

// Close closes the connection without a message: the agent terminates the job unless a client
// attaches again in time.
func (t *Terminal) Close() error { return t.conn.Close() }
