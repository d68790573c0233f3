package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Stream is a terminal that is somewhere else. One goroutine reads while others use the
// other methods.
type Stream interface {
	io.Reader // io.EOF is the end of what runs there
	io.Writer
	Resize(rows, cols uint16) error
}

// Options say which is the terminal of the caller.
type Options struct {
	// In is where is typed. If it is not a terminal, what it has is typed, and at its end
	// Ctrl-D, which ends shells.
	In *os.File
	// Out gets what the other side writes.
	Out *os.File
	// Escape is the character that begins a word for this side, where a line begins; 0
	// for none. "." behind it ends Run with ErrDetached, Ctrl-Z suspends the caller, "?"
	// lists these words, and the character itself is typed.
	Escape byte
}

// ErrDetached is what Run returns when who types has asked for it.
var ErrDetached = errors.New("detached")

// SignalError is what Run returns after a signal that asks the caller to end.
type SignalError struct{ Signal unix.Signal }

// Error returns which one it was.
func (e *SignalError) Error() string { return "ended by signal " + unix.SignalName(e.Signal) }

// OutputError is what Run returns when Out takes nothing any more.
type OutputError struct{ Err error }

// Error says why.
func (e *OutputError) Error() string { return "cannot write to standard output: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// Run connects the two terminals. It returns nil when the stream has ended with io.EOF,
// its error when it has failed, the context's when that has ended, and else one of those
// above. Afterwards the terminal of the caller is as it was, nothing more is read of In
// and nothing is begun to be written to Out; the stream is to be closed, which ends the
// goroutines that still use it.
//
// While it runs, SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGWINCH and SIGCONT of the process
// come here.
func Run(ctx context.Context, s Stream, o Options) error {
	r := &running{stream: s, options: o, terminal: Is(o.In), escapes: escapes{char: o.Escape}, mode: mode{file: o.In}}
	var err error
	if r.keys, err = newKeys(o.In); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	// A reader of Out who goes away must not end us with a terminal in which nobody
	// sees what he types.
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

	mu    sync.Mutex // guards what follows
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

// take makes the terminal one that passes on all keys, and tells the other side its size.
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

// release puts the terminal back, for good.
func (r *running) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.mode.restore()
}

// show passes on what the other side writes. A nil error is its end.
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

// typing passes on what is typed. A nil error is the end of what there is to be typed.
// That the other side takes nothing any more is for show to say.
func (r *running) typing() error {
	const size = 4 << 10
	buffer, last := make([]byte, size), byte('\n')
	for {
		n, err := r.keys.read(buffer)
		switch {
		case errors.Is(err, errStopped):
			return nil
		case errors.Is(err, io.EOF) && r.terminal, errors.Is(err, unix.EIO):
			return &SignalError{unix.SIGHUP} // the terminal is gone
		case errors.Is(err, io.EOF):
			end := []byte{ctrlD}
			if last != '\n' {
				end = []byte{ctrlD, ctrlD} // the first one ends the line (termios(3), EOF)
			}
			_, _ = r.stream.Write(end)
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

// pass passes on what was typed, and does what was said to this side. Only who sits at a
// terminal says something to it.
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

// suspend stops us as Ctrl-Z does elsewhere, until the shell lets us go on. Where there is
// none it does nothing.
func (r *running) suspend() {
	r.mu.Lock()
	r.mode.restore()
	r.mu.Unlock()
	_ = unix.Kill(0, unix.SIGTSTP) // the whole group, as the terminal would
	_ = r.take()
}
