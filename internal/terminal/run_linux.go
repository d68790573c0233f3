package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Stream is a remote terminal. One goroutine reads while others use the other methods.
type Stream interface {
	io.Reader // io.EOF is the end of the remote program
	io.Writer
	Resize(rows, cols uint16) error
}

// Options say which is the terminal of the caller.
type Options struct {
	// In is the source of the input. If it is not a terminal, its content is sent as if it were
	// typed, followed by Ctrl-D, which ends shells.
	In *os.File
	// Out receives the remote output.
	Out *os.File
	// Escape is the character that begins an escape sequence at the beginning of a line; 0 for
	// none. After it, "." ends Run with ErrDetached, Ctrl-Z suspends the caller, "?" lists the
	// sequences, and the character itself is sent.
	Escape byte
}

// ErrDetached is returned by Run when the user has detached.
var ErrDetached = errors.New("detached")

// SignalError is returned by Run after a signal that ends the caller.
type SignalError struct{ Signal unix.Signal }

// Error returns which one it was.
func (e *SignalError) Error() string { return "ended by signal " + unix.SignalName(e.Signal) }

// OutputError is returned by Run when Out accepts no more data.
type OutputError struct{ Err error }

// Error says why.
func (e *OutputError) Error() string { return "cannot write to standard output: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// Run connects the two terminals. It returns nil when the stream has ended with io.EOF. Otherwise
// it returns the stream's error, the context's error, or one of the errors above. Afterwards the
// caller's terminal is restored, and Run neither reads from In nor begins to write to Out. Then
// close the stream, which ends the goroutines that still use it.
//
// While it runs, it receives the SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGWINCH and SIGCONT signals of
// the process.
func Run(ctx context.Context, s Stream, o Options) error {
	r := &running{stream: s, options: o, terminal: Is(o.In), escapes: escapes{char: o.Escape}, mode: mode{file: o.In}}
	var err error
	if r.keys, err = newKeys(o.In); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	// A closed reader of Out must not end this process while the terminal is in raw mode, in which
	// users do not see their input.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, unix.SIGPIPE)
	defer signal.Stop(pipe)

	if err := r.take(); err != nil {
		r.keys.end()
		r.keys.close()
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	shown, typed := make(chan error, 1), make(chan error, 1)
	go func() { shown <- r.show() }()
	go func() {
		defer r.keys.close()
		typed <- r.typing()
	}()
	err = r.wait(ctx, signals, shown, typed)
	r.keys.end()
	r.release()
	return err
}

// running is one execution of Run.
type running struct {
	stream   Stream
	options  Options
	terminal bool // In is one
	keys     *keys
	escapes  escapes

	mu    sync.Mutex // protects the fields below
	mode  mode
	ended bool
}

// wait returns the error that ended the connection, or nil for its regular end.
func (r *running) wait(ctx context.Context, signals <-chan os.Signal, shown, typed <-chan error) error {
	for {
		select {
		case err := <-shown:
			return err
		case err := <-typed:
			if err != nil {
				return err
			}
		case sig := <-signals:
			switch sig {
			case unix.SIGWINCH, unix.SIGCONT:
				if err := r.take(); err != nil {
					return fmt.Errorf("cannot use the terminal: %w", err)
				}
			default:
				return &SignalError{sig.(unix.Signal)}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take switches the terminal to raw mode, and tells the other side its size.
func (r *running) take() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.terminal || r.ended || !r.mode.inForeground() {
		return nil
	}
	if err := r.mode.raw(); err != nil {
		return err
	}
	// That the other side is not there any more is for show to say.
	if rows, cols, err := Size(r.options.In); err == nil && rows > 0 && cols > 0 {
		_ = r.stream.Resize(rows, cols)
	}
	return nil
}

// release restores the terminal permanently.
func (r *running) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.mode.restore()
}

// show passes on the remote output. A nil error means its end.
func (r *running) show() error {
	const size = 32 << 10
	buffer := make([]byte, size)
	for {
		n, err := r.stream.Read(buffer)
		if n > 0 {
			if err := r.write(buffer[:n]); err != nil {
				return &OutputError{err}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (r *running) write(p []byte) error {
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return nil
	}
	_, err := r.options.Out.Write(p)
	return err
}

const ctrlD = 'D' & 0x1f

// typing passes on the input. A nil error means its end. If the other side accepts no more input,
// show reports that.
func (r *running) typing() error {
	const size = 4 << 10
	buffer, last := make([]byte, size), byte('\n')
	for {
		n, err := r.keys.read(buffer)
		switch {
		case errors.Is(err, errStopped):
			return nil
		case errors.Is(err, io.EOF) && r.terminal, errors.Is(err, unix.EIO):
			return &SignalError{unix.SIGHUP} // the terminal is closed
		case errors.Is(err, io.EOF):
			r.endOfInput(last != '\n')
			return nil
		case err != nil:
			return fmt.Errorf("cannot read the terminal: %w", err)
		}
		last = buffer[n-1]
		if err := r.pass(buffer[:n]); err != nil {
			return err
		}
	}
}

// The pauses between two keys that mean the end of the input.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// endOfInput sends Ctrl-D until the connection ends. A single one is not enough: a shell that edits
// lines switches its terminal to another mode after it has started, and a Ctrl-D that came before
// that means nothing to it. The shell would wait for input, and the job occupy its slot, forever.
// Like the end of a file, the further keys tell each program that reads later that there is no
// more input. open means that the input ended within a line.
func (r *running) endOfInput(open bool) {
	end := []byte{ctrlD}
	if open {
		end = []byte{ctrlD, ctrlD} // the first one ends the line (termios(3), EOF)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, _ = r.stream.Write(end)
		if r.keys.stopped(pause) {
			return
		}
		end = []byte{ctrlD}
		if open {
			end, open = []byte{'\n', ctrlD}, false // to a shell that edits lines, only this ends the line
		}
	}
}

// pass passes on input and carries out escape sequences. There are escape sequences only if In is a
// terminal.
func (r *running) pass(p []byte) error {
	if !r.terminal {
		_, _ = r.stream.Write(p)
		return nil
	}
	for len(p) > 0 {
		out, do, rest := r.escapes.next(p)
		p = rest
		if len(out) > 0 {
			_, _ = r.stream.Write(out)
		}
		switch do {
		case detach:
			return ErrDetached
		case suspend:
			r.suspend()
		case help:
			_ = r.write([]byte(helpText(r.escapes.char))) // show will find out
		}
	}
	return nil
}

// helpText lists the words for this side.
func helpText(char byte) string {
	c := string(rune(char))
	return "\r\nAt the beginning of a line:\r\n" +
		" " + c + ".   detach; the job goes on\r\n" +
		" " + c + "^Z  suspend this program\r\n" +
		" " + c + "?   this list\r\n" +
		" " + c + c + "   " + c + "\r\n"
}

// suspend stops this process, as Ctrl-Z does elsewhere, until the shell continues it. Without a
// shell it does nothing.
func (r *running) suspend() {
	r.mu.Lock()
	r.mode.restore()
	r.mu.Unlock()
	_ = unix.Kill(0, unix.SIGTSTP) // the whole group, as the terminal would
	_ = r.take()
}
