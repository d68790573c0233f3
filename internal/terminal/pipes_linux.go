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

// Pipes are the standard streams of something that runs somewhere else, and has no
// terminal. One goroutine copies while others use the other methods.
type Pipes interface {
	io.Writer // to its standard input
	EndInput() error
	// Copy returns nil at the end of what runs there, and the errors of the writers as
	// they are.
	Copy(stdout, stderr io.Writer) error
}

// PipeOptions say what the caller connects with them.
type PipeOptions struct {
	In       *os.File // read to its end; one that cannot be read is at its end
	Out, Err io.Writer
}

// RunPipes connects the standard streams of two programs, byte by byte: nothing is added,
// and an end is an end. It returns nil when all has been copied and what runs there has
// ended, the error of Copy when that has failed, the context's when that has ended, and
// else an *OutputError or a *SignalError. All that has been read of In then has been
// written, or p says that it could not be.
//
// While it runs, SIGHUP, SIGINT, SIGTERM and SIGPIPE of the process come here.
func RunPipes(ctx context.Context, p Pipes, o PipeOptions) error {
	in, err := newKeys(o.In)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)
	pipe := make(chan os.Signal, 1) // a reader of Out who goes away is an error of the writer
	signal.Notify(pipe, unix.SIGPIPE)
	defer signal.Stop(pipe)

	shown := make(chan error, 1)
	go func() { shown <- p.Copy(outputWriter{o.Out}, outputWriter{o.Err}) }()
	read := make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer in.close()
		read <- in.copyTo(p)
	})
	defer in.end()
	for {
		select {
		case err := <-shown:
			if _, ours := errors.AsType[*OutputError](err); !ours {
				in.end()
				reader.Wait() // what has been read is written, or cannot be
			}
			return err
		case err := <-read:
			if err != nil {
				return err
			}
		case sig := <-signals:
			return &SignalError{sig.(unix.Signal)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// copyTo passes on what is read, to the end. That the other side takes nothing any more is
// for Copy to say.
func (k *keys) copyTo(p Pipes) error {
	const size = 32 << 10
	buffer := make([]byte, size)
	for {
		n, err := k.read(buffer)
		switch {
		case err == nil:
			if written, _ := p.Write(buffer[:n]); written < n {
				return nil
			}
		case errors.Is(err, errStopped):
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, unix.EBADF), errors.Is(err, os.ErrClosed), errors.Is(err, unix.EIO):
			_ = p.EndInput()
			return nil
		default:
			return fmt.Errorf("cannot read standard input: %w", err)
		}
	}
}

// outputWriter tells its errors from those of the connection.
type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		return n, &OutputError{err}
	}
	return n, nil
}
