package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// maxLine is the largest line of a stream in bytes. The longest lines contain the load values of a
// host.
const maxLine = 64 << 20

// Reports calls take for each report with a number above after, in order and once each. If the
// connection breaks, Reports opens it again, with pauses, until the context ends. It passes
// heartbeats on as well.
//
// Reports returns the error of take unchanged, the error of the context, or an error of the agent
// that a retry cannot fix. FailedPrecondition means that another master has taken over.
// InvalidArgument means that the agent has lost its spool directory: the master's knowledge about
// the host is void. Reports does not acknowledge any report: the master calls Acknowledge once it
// has stored them.
func (c *Client) Reports(ctx context.Context, after uint64, take func(Report) error) error {
	s := stream{client: c, after: after, take: take}
	wait := c.options.PauseMin
	for {
		before := s.lines
		err := s.read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final, ok := errors.AsType[*takeError](err); ok {
			return final.err
		}
		if e, ok := errors.AsType[*Error](err); ok && slices.Contains(finals, e.Code) {
			return e
		}
		c.lost(err)
		if s.lines > before {
			wait = c.options.PauseMin
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = c.longer(wait)
	}
}

// finals are the codes of errors that a retry cannot fix.
var finals = []Code{InvalidArgument, PermissionDenied, Unauthenticated, FailedPrecondition, Unimplemented, NotFound}

// takeError marks an error of take.
type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }

// stream is the state that outlives single connections.
type stream struct {
	client *Client
	after  uint64 // all reports up to it were taken
	take   func(Report) error
	lines  int // received so far
	// version is the last reported version of the configuration; each version is passed on once.
	version string
}

// read opens the stream and reads it until it breaks. It always returns an error.
func (s *stream) read(ctx context.Context) error {
	c := s.client
	body, err := json.Marshal(ReportsRequest{After: s.after, Heartbeat: c.options.Heartbeat.Seconds()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A connection without any data for that long is closed.
	silence := max(3*c.options.Heartbeat, c.options.Heartbeat+time.Second)
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()

	response, err := c.send(ctx, Path+string(MethodReports), 0, body)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part of an error is still useful
		if lost, err := refused(response, text); !lost {
			return err
		}
		return fmt.Errorf("the agent %s is busy: %s", c.where, response.Status)
	}
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	for {
		line, err := readLine(lines)
		if err != nil {
			return c.unreached(ctx, err)
		}
		watch.Reset(silence)
		if err := s.line(line); err != nil {
			return err
		}
	}
}

// line processes one line. A report that was already processed can come again only if the agent
// miscounts; line skips it.
func (s *stream) line(text []byte) error {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return &Error{Code: Unknown, Message: fmt.Sprintf("cannot read a report of %s: %v", s.client.where, err), Err: err}
	}
	s.lines++
	switch {
	case r.Error != nil:
		return r.Error
	case r.Configuration != nil && r.Configuration.Version == s.version,
		r.Configuration == nil && r.Heartbeat == nil && r.Number <= s.after:
		return nil
	}
	if err := s.take(r); err != nil {
		return &takeError{err}
	}
	if r.Configuration != nil {
		s.version = r.Configuration.Version
	}
	if r.Heartbeat == nil {
		s.after = max(s.after, r.Number)
	}
	return nil
}

// readLine returns a line without its newline. A last line without a newline may be truncated, and
// is dropped.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && line == nil {
			return bytes.TrimSuffix(part, []byte("\n")), nil
		}
		if line = append(line, part...); err == nil {
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line has more than %d bytes", maxLine)
		}
	}
}
