package records

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/accounting"
)

// TestOpenRecent reads the end of a file that is longer than what it may read, of one with a single long line,
// and of a short one.
func TestOpenRecent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "accounting")
	const most = 64 << 10
	read := func(text []byte) (numbers []int) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := openEnd(ordinary, name, most)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		err = Each(t.Context(), file, 0, func(r *accounting.Record) error {
			numbers = append(numbers, r.Job)
			return nil
		}, func(line int, err error) { t.Errorf("line %d: %v", line, err) })
		if err != nil {
			t.Fatal(err)
		}
		return numbers
	}
	lines := func(from, to int) (text []byte) {
		for job := from; job <= to; job++ {
			text = accounting.AppendClassic(text, &accounting.Record{Job: job})
		}
		return text
	}
	if got := read(lines(1, 3)); fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("a short file: %v", got)
	}
	const all = 1000
	text := lines(1, all)
	first := len(text) - most
	if got := read(text); got[0] == 1 || got[len(got)-1] != all || len(got) != bytes.Count(text[first-1:], []byte("\n"))-1 {
		t.Errorf("a long file: %d records from %d to %d", len(got), got[0], got[len(got)-1])
	}
	// The part begins with a line.
	fill := most - len(lines(6, 9))
	part := append(lines(6, 6), bytes.Repeat([]byte("#"), fill%2)...)
	part = append(append(part, bytes.Repeat([]byte("#\n"), fill/2)...), lines(7, 9)...)
	if got := read(append(lines(1, 5), part...)); fmt.Sprint(got) != "[6 7 8 9]" {
		t.Errorf("a part that begins with a line: %v", got)
	}
	if got := read(bytes.Repeat([]byte("x"), most+10)); got != nil {
		t.Errorf("one long line: %v", got)
	}
	if _, err := OpenRecent(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
