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

// Exit is how an interactive job has ended.
type Exit struct {
	Status int    // exit status; 128 and the signal for a job that was ended by a signal
	Reason string // why the job has none, or was ended; empty for an end of its own
}

// Terminal is the terminal of a job that the caller is attached to. One goroutine may
// read while others use the other methods.
type Terminal struct {
	conn   io.ReadWriteCloser
	rest   []byte // of the last frame, not yet read
	buffer []byte
	err    error // of all further reads
	exit   *Exit

	writing sync.Mutex
}

// Attach connects the caller with the terminal of an interactive job, as soon as that
// has begun. Whoever was attached is so no more. The context is for the call alone; the
// connection is ended with Close or Detach.
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
	return &Terminal{conn: conn}, nil
}

// Read reads what the job writes. io.EOF is the end of the job, which Exit then returns;
// an *Error with the code Aborted says that somebody else has attached, and one with
// Unavailable that the agent ends or is not reached any more; the job goes on.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.err == nil {
			t.err = t.next()
		}
		if t.err != nil {
			return 0, t.err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// next takes a frame.
func (t *Terminal) next() error {
	if t.buffer == nil {
		t.buffer = make([]byte, MaxFrame)
	}
	f, err := ReadFrame(t.conn, t.buffer)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // io.EOF is the end of a job
	}
	if err != nil {
		return &Error{Code: Unavailable, Message: "the connection to the terminal has ended: " + err.Error(), Err: err}
	}
	switch f.Type {
	case FrameData:
		t.rest = f.Payload
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

// Exit returns how the job has ended, after Read has returned io.EOF; nil before.
func (t *Terminal) Exit() *Exit { return t.exit }

// Write types something.
func (t *Terminal) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		piece := p[n:min(len(p), n+MaxFrame)]
		if err := t.send(FrameData, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return len(p), nil
}

// Resize says that the window has another size.
func (t *Terminal) Resize(rows, cols uint16) error {
	return t.send(FrameResize, ResizePayload(rows, cols))
}

func (t *Terminal) send(kind FrameType, payload []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return WriteFrame(t.conn, kind, payload)
}

// Detach ends the connection, and the job goes on.
func (t *Terminal) Detach() error {
	err := t.send(FrameDetach, nil)
	if e := t.conn.Close(); err == nil {
		err = e
	}
	return err
}

// Close ends the connection without a word: the agent terminates the job when nobody
// attaches again in time.
func (t *Terminal) Close() error { return t.conn.Close() }
