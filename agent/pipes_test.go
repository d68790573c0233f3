package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/job"
)

// piped is somebody who is attached to a job with pipes.
type piped struct {
	*world
	Terminal
	out, err chan string // all of it, at the end
	ends     chan error
}

func (w *world) attachPipes(id job.ID) *piped {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	t, err := w.agent.Attach(ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	if !t.Pipes() {
		w.Error("the job has no pipes")
	}
	p := &piped{w, t, make(chan string, 1), make(chan string, 1), make(chan error, 2)}
	collect := func(read func([]byte) (int, error), all chan<- string) {
		text, err := io.ReadAll(readFunc(read))
		all <- string(text)
		p.ends <- err
	}
	go collect(t.Read, p.out)
	go collect(t.ReadErrors, p.err)
	return p
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// has compares what the job has written with what is expected.
func (p *piped) has(out, errs string) {
	p.Helper()
	if got := <-p.out; got != out {
		p.Errorf("standard output %q, expected %q", got, out)
	}
	if got := <-p.err; got != errs {
		p.Errorf("standard error %q, expected %q", got, errs)
	}
}

// TestPipes checks that a job without a terminal gets its input unchanged to the end, and that its
// two outputs arrive separately and unchanged.
func TestPipes(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(1, Interactive{Pipes: true}, "-N", "x", "-shell", "y",
		"sha256sum; tty; echo error >&2; echo by name >/dev/stderr; ps -o tty= $$; exit 3")).ID
	p := w.attachPipes(id)
	input := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(input) // with each byte that means something to a terminal
	if _, err := p.Write(input); err != nil {
		t.Error(err)
	}
	if err := p.Resize(10, 20); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := p.EndInput(); err != nil {
			t.Error(err)
		}
	}
	p.has(fmt.Sprintf("%x  -\nnot a tty\n?\n", sha256.Sum256(input)), "error\nby name\n")
	if o := w.ended(id); o.ExitStatus != 3 || o.Failed != 0 {
		t.Errorf("%+v", o)
	}
}

// TestLoginShellWithPipes checks that a login shell without a terminal reads its commands from a
// pipe.
func TestLoginShellWithPipes(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(1, Interactive{Pipes: true, Login: true}, "ignored")).ID
	p := w.attachPipes(id)
	if _, err := io.WriteString(p, "echo $0\nexit 4\n"); err != nil {
		t.Error(err)
	}
	p.has("-sh\n", "")
	if o := w.ended(id); o.ExitStatus != 4 {
		t.Errorf("%+v", o)
	}
}

// TestPipesOutliveTheAgent checks that the supervisor keeps the pipes: output waits for the next
// agent, which also knows whether the input has ended.
func TestPipesOutliveTheAgent(t *testing.T) {
	for name, ended := range map[string]bool{"input goes on": false, "input has ended": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shellOfOwner("/bin/sh"))
			start := w.interactive(1, Interactive{Pipes: true}, "-N", "x", "-shell", "y", "cat; read x < fifo; echo told >&2")
			path := filepath.Join(start.Request.WorkingDir, "fifo")
			makeFifo(t, path)
			fifo, err := os.OpenFile(path, os.O_RDWR, 0) // without waiting for the job
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			id := w.mustStart(start).ID
			p := w.attachPipes(id)
			if _, err := io.WriteString(p, "first "); err != nil {
				t.Error(err)
			}
			if ended {
				if err := p.EndInput(); err != nil {
					t.Error(err)
				}
			}
			w.stop()
			first, told := <-p.out, <-p.err
			if err := <-p.ends; !errors.Is(err, ErrDetached) && err != nil {
				t.Error(err)
			}
			w.start(shellOfOwner("/bin/sh"))
			p = w.attachPipes(id)
			if !ended {
				if _, err := io.WriteString(p, "second"); err != nil {
					t.Error(err)
				}
			}
			if err := p.EndInput(); err != nil {
				t.Error(err)
			}
			// Only now may the job end: a terminal whose job has ended goes with the agent.
			if _, err := io.WriteString(fifo, "\n"); err != nil {
				t.Error(err)
			}
			want := "first second"
			if ended {
				want = "first "
			}
			if got := first + <-p.out; got != want {
				t.Errorf("standard output %q, expected %q", got, want)
			}
			if got := told + <-p.err; got != "told\n" {
				t.Errorf("standard error %q", got)
			}
			w.ended(id)
		})
	}
}

// TestPipesAreFull checks that a job that does not read its input blocks nothing, and that input
// for a job that has closed it causes no failure.
func TestPipesAreFull(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	full := w.mustStart(w.interactive(1, Interactive{Pipes: true}, "sleep", "1000")).ID
	p := w.attachPipes(full)
	written := make(chan error, 1)
	go func() {
		_, err := p.Write(bytes.Repeat([]byte("x"), 1<<20))
		written <- err
	}()
	p.Close()
	if err := <-written; !errors.Is(err, ErrDetached) {
		t.Error(err)
	}
	if o := w.ended(full); o.Signal != 9 { // at once, and not after Options.HangUp
		t.Errorf("%+v", o)
	}

	closed := w.mustStart(w.interactive(2, Interactive{Pipes: true}, "-N", "x", "-shell", "y", "exec <&-; exec sleep 1000")).ID
	p = w.attachPipes(closed)
	w.until("the pipe is closed", func() bool {
		_, err := io.WriteString(p, "x")
		return err != nil
	})
	p.Close()
	w.ended(closed)
}
