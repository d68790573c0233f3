package terminal

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
)

// Screen is a terminal that a program fills by itself: the program gets each key, and what it writes
// reaches the terminal unchanged. Several goroutines may use a Screen.
type Screen struct {
	in  *os.File
	out io.Writer

	mu   sync.Mutex
	mode mode
	keys *keys // nil while the Screen is stopped
}

// NewScreen returns a Screen that reads keys from in, which is a terminal, and writes to out. After
// the end of the context its writes return at once (NewWriter).
func NewScreen(ctx context.Context, in, out *os.File) *Screen {
	return &Screen{in: in, out: NewWriter(ctx, out), mode: mode{file: in}}
}

// Start switches the terminal to raw mode. It has no effect on a Screen that has been started.
func (s *Screen) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys != nil {
		return nil
	}
	k, err := newKeys(s.in)
	if err != nil {
		return err
	}
	if err := s.mode.raw(); err != nil {
		k.end()
		k.close()
		return err
	}
	s.keys = k
	return nil
}

// Stop restores the terminal. A pending Read returns an error. Start starts the Screen again.
func (s *Screen) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		return
	}
	s.keys.end()
	s.keys.close()
	s.keys = nil
	s.mode.restore()
}

// Read waits for keys, and returns them. At the end of the terminal it returns io.EOF.
func (s *Screen) Read(p []byte) (int, error) {
	s.mu.Lock()
	k := s.keys
	s.mu.Unlock()
	if k == nil {
		return 0, errStopped
	}
	return k.read(p)
}

// Write writes to the terminal.
func (s *Screen) Write(p []byte) (int, error) { return s.out.Write(p) }

// NewWriter returns a writer to w. When the context is done a pending Write returns its error, even
// if a stopped terminal or a full pipe accepts no data, and no Write begins. The interrupted write
// itself goes on until the process ends.
func NewWriter(ctx context.Context, w io.Writer) io.Writer { return &writer{ctx, w} }

type writer struct {
	ctx context.Context
	to  io.Writer
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	text := bytes.Clone(p) // the caller may change p when Write has returned
	go func() {
		n, err := w.to.Write(text)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
}
