package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pair returns a terminal: what a person has, and what programs have.
func pair(t *testing.T) (person, program *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	person = open("/dev/ptmx")
	number, err := control(person, func(fd int) (*int, error) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return nil, err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return &n, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return person, open(fmt.Sprintf("/dev/pts/%d", *number))
}

func resize(t *testing.T, f *os.File, rows, cols uint16) {
	t.Helper()
	if _, err := control(f, func(fd int) (*int, error) {
		return nil, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}); err != nil {
		t.Fatal(err)
	}
}

// remote is another side of which a test has the far end.
type remote struct {
	io.Reader
	io.Writer
	sizes chan string
	shows *io.PipeWriter
	gets  *io.PipeReader
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{sizes: make(chan string, 9)}
	r.Reader, r.shows = io.Pipe()
	r.gets, r.Writer = io.Pipe()
	t.Cleanup(func() {
		r.shows.Close()
		r.gets.Close()
	})
	return r
}

func (r *remote) Resize(rows, cols uint16) error {
	r.sizes <- fmt.Sprint(rows, " ", cols)
	return nil
}

// read waits for a text, and for no more than that.
func read(t *testing.T, f io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(f, b); err != nil || string(b) != want {
		t.Fatalf("%q and %v, expected %q", b[:n], err, want)
	}
}

func write(t *testing.T, f io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	m, err := control(f, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) })
	if err != nil {
		t.Fatal(err)
	}
	return m.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) == unix.ECHO|unix.ICANON|unix.ISIG
}

// begin runs Run, and returns when the other side has been told the size.
func begin(t *testing.T, ctx context.Context, r *remote, o Options) (result chan error) {
	t.Helper()
	result = make(chan error, 1)
	go func() { result <- Run(ctx, r, o) }()
	if got := <-r.sizes; got != "24 80" {
		t.Errorf("size %s", got)
	}
	return result
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, person *os.File, r *remote, cancel func())
		want func(error) bool
	}{
		"the other side ends": {func(_ *testing.T, _ *os.File, r *remote, _ func()) { r.shows.Close() }, func(err error) bool { return err == nil }},
		"the other side fails": {
			func(_ *testing.T, _ *os.File, r *remote, _ func()) { r.shows.CloseWithError(io.ErrNoProgress) },
			func(err error) bool { return errors.Is(err, io.ErrNoProgress) },
		},
		"detached": {func(t *testing.T, person *os.File, r *remote, _ func()) { //nolint:thelper // not one
			write(t, person, "\r")
			read(t, r.gets, "\r")
			write(t, person, "~.")
		}, func(err error) bool { return errors.Is(err, ErrDetached) }},
		"the context ends": {func(_ *testing.T, _ *os.File, _ *remote, cancel func()) { cancel() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"a signal": {func(t *testing.T, _ *os.File, _ *remote, _ func()) { //nolint:thelper // not one
			if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool {
			e, ok := errors.AsType[*SignalError](err)
			return ok && e.Signal == unix.SIGTERM
		}},
	} {
		t.Run(name, func(t *testing.T) {
			person, program := pair(t)
			resize(t, program, 24, 80)
			r := newRemote(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := begin(t, ctx, r, Options{In: program, Out: program, Escape: '~'})
			if echoes(t, program) {
				t.Error("the terminal echoes what is typed")
			}
			// Ctrl-C is a key like others, and output is not touched.
			write(t, person, "a\x03\x1a\x13")
			read(t, r.gets, "a\x03\x1a\x13")
			write(t, r.shows, "x\ny")
			read(t, person, "x\ny")
			resize(t, program, 30, 100)
			if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
				t.Fatal(err)
			}
			if got := <-r.sizes; got != "30 100" {
				t.Errorf("size %s", got)
			}
			c.end(t, person, r, cancel)
			if err := <-result; !c.want(err) {
				t.Errorf("%v", err)
			}
			if !echoes(t, program) {
				t.Error("the terminal is not as it was")
			}
			// What is typed now is for others.
			write(t, person, "mine\n")
			b := make([]byte, 9)
			if n, err := program.Read(b); err != nil || string(b[:n]) != "mine\n" {
				t.Errorf("%q, %v", b[:n], err)
			}
		})
	}
}

// TestRunWithoutTerminal checks that input that is not a terminal is sent completely, and that
// escape sequences in it have no effect.
func TestRunWithoutTerminal(t *testing.T) {
	for typed, want := range map[string]string{
		"~.\necho x\n": "~.\necho x\n\x04",
		"echo x":       "echo x\x04\x04",
		"":             "\x04",
	} {
		in, keys, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out, shows, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r := newRemote(t)
		result := make(chan error, 1)
		go func() { result <- Run(t.Context(), r, Options{In: in, Out: shows, Escape: '~'}) }()
		write(t, keys, typed)
		keys.Close()
		read(t, r.gets, want)
		write(t, r.shows, "said")
		r.shows.Close()
		if err := <-result; err != nil {
			t.Error(err)
		}
		shows.Close()
		if b, err := io.ReadAll(out); err != nil || string(b) != "said" {
			t.Errorf("%q, %v", b, err)
		}
		in.Close()
		out.Close()
	}
}

// TestRunRepeatsTheEndOfInput checks that a shell that was not ready for the first Ctrl-D gets
// further ones, and that they cease when the connection ends.
func TestRunRepeatsTheEndOfInput(t *testing.T) {
	for typed, want := range map[string]string{
		"":       "\x04\x04\x04",
		"exit\n": "exit\n\x04\x04\x04",
		"exit":   "exit\x04\x04\n\x04\x04",
	} {
		in, keys, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r := newRemote(t)
		result := make(chan error, 1)
		go func() { result <- Run(t.Context(), r, Options{In: in, Out: os.Stdout}) }()
		write(t, keys, typed)
		keys.Close()
		read(t, r.gets, want)
		r.shows.Close()
		if err := <-result; err != nil {
			t.Error(err)
		}
		in.Close()
	}
}

// TestRunEndsOrderlyIfOutputIsClosed checks that a closed output does not kill the process by
// SIGPIPE.
func TestRunEndsOrderlyIfOutputIsClosed(t *testing.T) {
	person, program := pair(t)
	resize(t, program, 24, 80)
	out, shows, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer shows.Close()
	out.Close()
	r := newRemote(t)
	result := begin(t, t.Context(), r, Options{In: program, Out: shows})
	write(t, r.shows, "x")
	if err := <-result; !strings.HasPrefix(fmt.Sprint(err), "cannot write to standard output: ") || !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	if !echoes(t, program) {
		t.Error("the terminal is not as it was")
	}
	write(t, person, "\n")
}
