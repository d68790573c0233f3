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

// maxLine bounds a line of a stream: the load values of a host, the longest there is.
const maxLine = 64 << 20

// Reports calls take for each report with a number above after, in their order and each
// once, however often the connection breaks: it is opened again, with pauses, until the
// context ends. Heartbeats are passed on, too.
//
// It returns the error of take as it is, the agent's where asking again does not help,
// such as FailedPrecondition when another master has taken over and InvalidArgument when
// the agent has lost its spool area, so that what the master knows is void, and the
// context's at the end. The reports are not acknowledged by being taken: that is for Acknowledge,
// once the master has stored them.
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

// finals are the codes of errors that another try would meet, too.
var finals = []Code{InvalidArgument, PermissionDenied, Unauthenticated, FailedPrecondition, Unimplemented, NotFound}

// takeError is an error of take.
type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }

// stream is what is known over several connections.
type stream struct {
	client *Client
	after  uint64 // all reports up to it were taken
	take   func(Report) error
	lines  int // that have come
	// version is the last one of the configuration; of a version is only told once.
	version string
}

// read opens the stream and reads it to its end, which is never a good one.
func (s *stream) read(ctx context.Context) error {
	c := s.client
	body, err := json.Marshal(ReportsRequest{After: s.after, Heartbeat: c.options.Heartbeat.Seconds()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Whoever neither answers nor hangs up is given up.
	silence := max(3*c.options.Heartbeat, c.options.Heartbeat+time.Second)
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()

	response, err := c.send(ctx, Path+string(MethodReports), 0, body)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // half an error is one as well
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

// line takes one line. What was taken before the connection broke comes again only if
// the agent counts otherwise than it should; it is skipped.
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

// readLine returns a line without its end. The last one may have been cut, so that it is
// none without an end.
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
