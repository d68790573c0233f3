package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// program is a program at the other end of a connection. The test reads its input and writes its output.
type program struct {
	in    *io.PipeReader
	typed *io.PipeWriter
	out   chan func(stdout, stderr io.Writer) error // what is copied next; closed at the end
	ended chan struct{}                             // closed by the end of the input
}

func newProgram() *program {
	p := &program{out: make(chan func(stdout, stderr io.Writer) error), ended: make(chan struct{})}
	p.in, p.typed = io.Pipe()
	return p
}

func (p *program) Write(b []byte) (int, error) { return p.typed.Write(b) }

func (p *program) EndInput() error {
	close(p.ended)
	return nil
}

func (p *program) Copy(stdout, stderr io.Writer) error {
	defer p.in.Close()
	for f := range p.out {
		if err := f(stdout, stderr); err != nil {
			return err
		}
	}
	return nil
}

// prints makes the program write to standard output and standard error.
func (p *program) prints(out, errs string) {
	p.out <- func(stdout, stderr io.Writer) error {
		if _, err := io.WriteString(stdout, out); err != nil {
			return err
		}
		_, err := io.WriteString(stderr, errs)
		return err
	}
}

func filePipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// TestRunPipes checks that input, including its end, reaches the other side unchanged, and that the
// output of the other side is printed.
func TestRunPipes(t *testing.T) {
	r, w := filePipe(t)
	p := newProgram()
	var out, errs bytes.Buffer
	over := make(chan error, 1)
	go func() { over <- RunPipes(t.Context(), p, PipeOptions{In: r, Out: &out, Err: &errs}) }()
	const text = "~.\x04\x03\x1a\r\n\x00\xff"
	write(t, w, text)
	read(t, p.in, text)
	p.prints("out", "err")
	select {
	case <-p.ended:
		t.Error("the input has ended too early")
	default:
	}
	w.Close()
	<-p.ended
	p.prints("more", "")
	close(p.out)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if out.String() != "outmore" || errs.String() != "err" {
		t.Errorf("%q and %q", out.String(), errs.String())
	}
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, unix.EPIPE }

// TestRunPipesEnds checks that after the end of a session, for any reason, no more input has been
// read than was passed on.
func TestRunPipesEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *program, cancel func())
		want func(error) bool
	}{
		"what runs there ends": {func(p *program, _ func()) { close(p.out) }, func(err error) bool { return err == nil }},
		"the connection fails": {
			func(p *program, _ func()) { p.out <- func(_, _ io.Writer) error { return io.ErrNoProgress } },
			func(err error) bool { return errors.Is(err, io.ErrNoProgress) },
		},
		"nobody reads any more": {func(p *program, _ func()) { p.prints("x", "") }, func(err error) bool {
			_, ok := errors.AsType[*OutputError](err)
			return ok && errors.Is(err, unix.EPIPE)
		}},
		"a signal": {func(*program, func()) { _ = unix.Kill(os.Getpid(), unix.SIGINT) }, func(err error) bool {
			e, ok := errors.AsType[*SignalError](err)
			return ok && e.Signal == unix.SIGINT
		}},
		"the context ends": {func(_ *program, cancel func()) { cancel() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := filePipe(t)
			p := newProgram()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan error, 1)
			go func() { over <- RunPipes(ctx, p, PipeOptions{In: r, Out: full{}, Err: full{}}) }()
			write(t, w, "first")
			read(t, p.in, "first")
			c.end(p, cancel)
			if err := <-over; !c.want(err) {
				t.Error(err)
			}
			write(t, w, "second") // for the next client
			read(t, r, "second")
			select {
			case <-p.ended:
				t.Error("the input is said to have ended")
			default:
			}
		})
	}
}
