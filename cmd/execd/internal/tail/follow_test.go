package tail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/qstat"
)

// following returns a follower of an array job, with an output file for each task in a directory.
func following(dir string, to, errs io.Writer) *follower {
	q := request{job: 1, lines: 10, find: output.NewFinder(userdb.System())}
	return &follower{
		request: q, out: newPrinter(to, q), errs: errs, tasks: true, files: []qstat.OutputFile{{Path: filepath.Join(dir, "$TASK_ID")}},
		open: map[int]*followed{}, done: map[int]bool{},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// each calls a function for each text that is written, and fails after many of them.
type each struct {
	bytes.Buffer
	calls int
	do    func()
}

var errMany = errors.New("the command does not end")

func (w *each) Write(p []byte) (int, error) {
	const many = 20
	if w.calls++; w.calls > many {
		return 0, errMany
	}
	w.do()
	return w.Buffer.Write(p)
}

// TestFinishOfGrowingFile makes another process write to the file as fast as the command reads it.
func TestFinishOfGrowingFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1")
	text := strings.Repeat("a line\n", 2*turn/len("a line\n"))
	write(t, path, text)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	to := &each{do: func() {
		if _, err := file.WriteString(text); err != nil {
			t.Error(err)
		}
	}}
	f := following(dir, to, t.Output())
	f.out.raw, f.tasks = true, false
	f.add(1, false)
	if err := f.finish(t.Context(), 1); err != nil || to.String() != text {
		t.Errorf("%v, %d bytes, expected %d", err, to.Len(), len(text))
	}
}

// TestInterruptedFinish interrupts the command while it prints what remains of a large file.
func TestInterruptedFinish(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "1"), strings.Repeat("a line\n", turn))
	ctx, cancel := context.WithCancel(t.Context())
	to := &each{do: cancel}
	f := following(dir, to, t.Output())
	f.add(1, false)
	if err := f.finish(ctx, 1); err != nil || to.calls == 0 || to.Len() > 2*turn {
		t.Errorf("%v, %d bytes", err, to.Len())
	}
}

// TestEndOfShortTask follows a task that finishes before the command has seen it running. The clock
// of the file server is behind.
func TestEndOfShortTask(t *testing.T) {
	dir := t.TempDir()
	for _, task := range []string{"1", "3"} {
		path := filepath.Join(dir, task)
		write(t, path, "output\n")
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	var to bytes.Buffer
	f := following(dir, &to, t.Output())
	f.out.headers = true
	f.alive = []qstat.Range{{First: 3, Last: 9, Step: 2}}
	for _, task := range []int{1, 3, 3, 5} {
		if err := f.ended(t.Context(), task); err != nil {
			t.Errorf("task %d: %v", task, err)
		}
	}
	if got, want := to.String(), "==> task 3 <==\noutput\n"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// TestUnreadableTask follows two tasks, one of which has a pipe for its output.
func TestUnreadableTask(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "1"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "2"), "output\n")
	var to, errs bytes.Buffer
	f := following(dir, &to, &errs)
	f.add(1, false)
	f.add(2, false)
	for range 2 {
		if _, err := f.print(t.Context()); err != nil {
			t.Error(err)
		}
		f.add(1, false)
	}
	if err := errors.Join(f.ended(t.Context(), 1), f.ended(t.Context(), 2)); err != nil {
		t.Error(err)
	}
	if n := strings.Count(errs.String(), "the output of task 1 is not shown: "); to.String() != "output\n" || n != 1 || !f.bad {
		t.Errorf("%q, %q", &to, &errs)
	}
}
