package records

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/execd-project/execd/accounting"
)

// long is a file that is as good as endless. It calls interrupt while it is read.
type long struct {
	text      []byte
	reads     int
	interrupt func()
}

func (f *long) Read(p []byte) (int, error) {
	const interrupted, most = 3, 1000
	if f.reads++; f.reads == interrupted {
		f.interrupt()
	}
	if f.reads > most {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], f.text)
	}
	return n, nil
}

// TestInterruptedEach reads a long file without records of the wanted job, and one without line breaks, until it is
// interrupted.
func TestInterruptedEach(t *testing.T) {
	for name, text := range map[string]string{
		"other jobs":   string(accounting.AppendClassic(nil, &accounting.Record{Job: 7})),
		"endless line": "x",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := Each(ctx, &long{text: []byte(text), interrupt: cancel}, 8, func(*accounting.Record) error { return nil }, func(int, error) {})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
