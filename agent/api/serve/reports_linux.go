package serve

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
)

// The pauses between heartbeats, in seconds.
const (
	defaultHeartbeat = 10
	leastHeartbeat   = 0.1
	mostHeartbeat    = 3600
)

// reports returns the stream. The stream buffers no reports: the agent stores them until they are
// acknowledged. So a slow reader costs no memory, and one that reconnects misses nothing.
func reports(ctx context.Context, c *call, q *api.ReportsRequest) (any, *api.Error) {
	if q.Heartbeat == 0 {
		q.Heartbeat = defaultHeartbeat
	}
	if !(q.Heartbeat >= leastHeartbeat && q.Heartbeat <= mostHeartbeat) {
		return nil, refuse(api.InvalidArgument, "heartbeat: %v, expected %v to %v seconds", q.Heartbeat, leastHeartbeat, mostHeartbeat)
	}
	commands := c.server.commands
	if q.Acknowledge > 0 {
		if err := commands.Acknowledge(ctx, q.Acknowledge); err != nil {
			return nil, failure(err)
		}
	}
	c.begin()
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	s := stream{call: c, after: q.After, heartbeat: time.Duration(q.Heartbeat * float64(time.Second))}
	if takesGzip(c.r.Header) {
		c.w.Header().Set("Content-Encoding", "gzip")
		s.gzip, _ = gzip.NewWriterLevel(c.w, gzip.BestSpeed) // a level that there is
	}
	c.w.WriteHeader(http.StatusOK)
	if c.control.Flush() != nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := c.server.onStop(cancel)
	defer stop()

	for {
		err := s.next(ctx)
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[*api.Error](err); ok {
			_ = s.write(api.Report{Number: s.after, Error: e}) // it may be too late for it
		}
		if s.gzip != nil {
			c.begin()
			_ = s.gzip.Close()
		}
		return nil, nil
	}
}

// onStop calls f when streams have to end. The caller must call the returned function.
func (s *Server) onStop(f func()) (forget func()) {
	over := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.stopping:
			f()
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// stream is a stream of reports.
type stream struct {
	call      *call
	after     uint64 // all up to it were written
	heartbeat time.Duration
	gzip      *gzip.Writer // nil for a stream that is not compressed
	buffer    []byte       // of write
}

// next writes the next reports, or a heartbeat. An error ends the stream; one of type *api.Error is
// sent to the peer.
func (s *stream) next(ctx context.Context) error {
	server := s.call.server
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := server.options.Clock.NewTimer(s.heartbeat)
	defer timer.Stop()
	beat := make(chan bool, 1)
	go func() {
		select {
		case <-timer.C():
			beat <- true
			cancel()
		case <-waiting.Done():
			beat <- false
		}
	}()
	b, err := server.commands.Reports(waiting, s.after)
	cancel()
	idle := <-beat
	select {
	case <-server.stopping:
		return refuse(api.Unavailable, "the agent is being shut down")
	default:
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !idle:
		return failure(err)
	}
	// A master that was replaced in the meantime gets this error instead of further reports.
	if e := server.epoch.check(s.call.turn.Epoch, server.commands); e != nil {
		return e
	}
	if err != nil {
		return s.write(api.Report{Number: s.after, Heartbeat: &api.Heartbeat{Time: server.options.Clock.Now().UTC().Truncate(time.Millisecond)}})
	}
	if err := s.write(inOrder(&b, server.options.Clock.Now())...); err != nil {
		return err
	}
	s.after = max(s.after, b.Number)
	return nil
}

// inOrder returns the reports of a batch sorted by number: wherever the stream is cut, all reports
// up to the number of the last received line have arrived.
func inOrder(b *agent.Batch, now time.Time) []api.Report {
	list := make([]api.Report, 0, len(b.Jobs)+3)
	used := map[uint64]*api.UsageReport{}
	for i := range b.Jobs {
		r := &b.Jobs[i]
		if r.Used {
			// All usage with the same number is in one line, which arrives as a whole or not at
			// all.
			u := used[r.Number]
			if u == nil {
				u = &api.UsageReport{Time: now.UTC().Truncate(time.Millisecond)}
				used[r.Number] = u
				list = append(list, api.Report{Number: r.Number, Usage: u})
			}
			u.Jobs = append(u.Jobs, translateUsage(r))
			continue
		}
		j := translateJob(r)
		list = append(list, api.Report{Number: j.Number, Job: &j})
	}
	if b.Load != nil {
		list = append(list, api.Report{Number: b.Load.Number, Load: translateLoad(b.Load)})
	}
	if b.Configuration != "" {
		list = append(list, api.Report{
			Number: cmp.Or(b.ConfigurationNumber, b.Number), Configuration: &api.Configuration{Version: b.Configuration},
		})
	}
	if b.Service != nil {
		list = append(list, api.Report{Number: b.Service.Number, Service: &api.Service{Draining: b.Service.Draining}})
	}
	slices.SortStableFunc(list, func(x, y api.Report) int { return cmp.Compare(x.Number, y.Number) })
	return list
}

// piece is how much is written at a time, and has its time to be taken.
const piece = 32 << 10

// write writes lines, and waits until the peer's side of the connection has room for
// them, as long as the limit says.
func (s *stream) write(list ...api.Report) error {
	s.buffer = s.buffer[:0]
	for i := range list {
		var err error
		if s.buffer, err = appendLine(s.buffer, &list[i]); err != nil {
			return refuse(api.Internal, "cannot encode a report: %v", err)
		}
		if last := i == len(list)-1; len(s.buffer) >= piece || last {
			if err := s.send(last); err != nil {
				return err
			}
		}
	}
	if cap(s.buffer) > 2*piece {
		s.buffer = nil // a line as long as that is rare
	}
	return nil
}

// send sends the buffer; with flush it also flushes the compressor and the connection.
func (s *stream) send(flush bool) error {
	s.call.begin()
	b := s.buffer
	s.buffer = b[:0]
	var err error
	if s.gzip == nil {
		_, err = s.call.w.Write(b)
	} else if _, err = s.gzip.Write(b); err == nil && flush {
		err = s.gzip.Flush()
	}
	if err != nil || !flush {
		return err
	}
	return s.call.control.Flush()
}

// takesGzip reports whether the peer asks for gzip (RFC 9110, 12.5.3); other encodings are not
// supported.
func takesGzip(h http.Header) bool {
	for _, line := range h["Accept-Encoding"] {
		for item := range strings.SplitSeq(line, ",") {
			coding, weight, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(item, " ", "")), ";q=")
			if coding == "gzip" {
				q, err := strconv.ParseFloat(weight, 64)
				return weight == "" || err == nil && q > 0
			}
		}
	}
	return false
}
