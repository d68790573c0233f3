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

// Pipes are the standard streams of a remote program without a terminal. One goroutine calls Copy
// while others use the other methods.
type Pipes interface {
	io.Writer // to its standard input
	EndInput() error
	// Copy returns nil at the end of the remote program, and errors of the writers unchanged.
	Copy(stdout, stderr io.Writer) error
}

// PipeOptions are the caller's files for the connection.
type PipeOptions struct {
	In       *os.File // read to its end; an unreadable file counts as empty
	Out, Err io.Writer
}

// RunPipes connects the standard streams of two programs, byte by byte, without additions,
// including the ends of files. It returns nil when all data has been copied and the remote program
// has ended. Otherwise it returns the error of Copy, the context's error, an *OutputError or a
// *SignalError. By then all data read from In has been written, or p has reported that it could not
// be.
//
// While it runs, it receives the SIGHUP, SIGINT, SIGTERM and SIGPIPE signals of the process.
func RunPipes(ctx context.Context, p Pipes, o PipeOptions) error {
	in, err := newKeys(o.In)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)
	pipe := make(chan os.Signal, 1) // a closed reader of Out becomes an error of the writer
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
				reader.Wait() // read data has been written, or cannot be
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

// copyTo passes on the input to its end. If the other side accepts no more data, Copy reports that.
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

// outputWriter marks its errors, to distinguish them from errors of the connection.
type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		return n, &OutputError{err}
	}
	return n, nil
}
