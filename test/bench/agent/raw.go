package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
)

// report reads all reports of an agent, like a master that connects again, and returns the number
// of bytes received, compressed or not.
func (b *bench) report(ctx context.Context, compressed bool) (int, error) {
	s, err := b.open(ctx, compressed)
	if err != nil {
		return 0, err
	}
	defer s.close()
	err = s.all()
	return s.came.n, err
}

// stream is a stream of reports that is parsed here.
type stream struct {
	came  *counted
	lines *bufio.Scanner
	close func()
}

func (b *bench) open(ctx context.Context, compressed bool) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(b.spool, "run", "agent.sock"))
	}}
	s := &stream{close: func() {
		cancel()
		transport.CloseIdleConnections()
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/execd.v1.Agent/Reports", bytes.NewReader([]byte("{}")))
	if err != nil {
		s.close()
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if compressed {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		s.close()
		return nil, err
	}
	s.close = func() {
		cancel()
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	}
	s.came = &counted{from: answer.Body}
	var body io.Reader = s.came
	if compressed {
		if body, err = gzip.NewReader(s.came); err != nil {
			s.close()
			return nil, err
		}
	}
	s.lines = bufio.NewScanner(body)
	s.lines.Buffer(nil, 1<<20)
	return s, nil
}

// all reads until all jobs and the load have arrived.
func (s *stream) all() error {
	jobs := 0
	for load := false; (!load || jobs < sleeperJobs) && s.lines.Scan(); {
		load = load || bytes.Contains(s.lines.Bytes(), []byte(`"load":{`))
		if bytes.Contains(s.lines.Bytes(), []byte(`"job":{`)) {
			jobs++
		}
	}
	return s.lines.Err()
}

// next reads until a line with a word has arrived.
func (s *stream) next(word string) error {
	for s.lines.Scan() {
		if bytes.Contains(s.lines.Bytes(), []byte(word)) {
			return nil
		}
	}
	return errors.Join(io.ErrUnexpectedEOF, s.lines.Err())
}

// counted counts the bytes read.
type counted struct {
	from io.Reader
	n    int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}
