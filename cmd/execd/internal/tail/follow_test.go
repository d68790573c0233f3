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

	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/qstat"
)

// following returns a follower of an array job, with an output file for each task in a directory.
func following(dir string, to io.Writer) *follower {
	q := request{job: 1, lines: 10, find: output.NewFinder(userdb.System())}
	return &follower{
		request: q, out: newPrinter(to, q), tasks: true, files: []qstat.OutputFile{{Path: filepath.Join(dir, "$TASK_ID")}},
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

// TestFinishOfGrowingFile has another process write to the file as fast as the command reads it.
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
	f := following(dir, to)
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
	f := following(dir, to)
	f.add(1, false)
	if err := f.finish(ctx, 1); err != nil || to.calls == 0 || to.Len() > 2*turn {
		t.Errorf("%v, %d bytes", err, to.Len())
	}
}
