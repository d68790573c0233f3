package printer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/printable"
)

// FuzzWriter checks that text written in two parts gives the same output as text written at once,
// and that escaped text stays the same when it is escaped again.
func FuzzWriter(f *testing.F) {
	for _, s := range []string{"", "a\x1b\n", "\u202e\u009b", "\xed\xa0\x80", "b\xc3"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		e := printable.String(s)
		var one, two bytes.Buffer
		w := NewWriter(&one)
		if _, err := w.Write([]byte(s)); err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
		w = NewWriter(&two)
		cut := 0
		if len(s) > 0 {
			cut = int(uint(at) % uint(len(s)))
		}
		for _, part := range []string{s[:cut], s[cut:]} {
			if n, err := w.Write([]byte(part)); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if one.String() != two.String() || one.String() != printable.Lines(s) {
			t.Errorf("%q is written as %q, in two parts as %q; as lines it is %q", s, &one, &two, printable.Lines(s))
		}
		one.Reset()
		w = NewWriter(&one)
		if _, err := w.Write([]byte(e)); err != nil || one.String() != e {
			t.Errorf("%q is written as %q, %v", e, &one, err)
		}
	})
}

func TestFormat(t *testing.T) {
	type state string
	got := Sprintf("%s %d %q %v %v %s %-8s.", "a\nb", 3, "\x1b", errors.New("c\nd"), []string{"e\n"}, Trusted("f\n"), state("g\n"))
	if want := `a\x0ab 3 "\x1b" c\x0ad [e\x0a] f` + "\n g\\x0a   ."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestErrorLines(t *testing.T) {
	one, two := errors.New("one\x1b"), errors.New("two\nforged")
	for sentence, c := range map[string]struct {
		err  error
		want string
	}{
		"one error":             {two, `two\x0aforged`},
		"several":               {errors.Join(one, two), `one\x1b|two\x0aforged`},
		"several, wrapped":      {fmt.Errorf("a\nb: %w", errors.Join(one, two)), `a\x0ab: one\x1b|two\x0aforged`},
		"several, in the midst": {fmt.Errorf("%w, and so on", errors.Join(one, one)), `one\x1b\x0aone\x1b, and so on`},
		"wrapped twice":         {fmt.Errorf("%w: %w", one, two), `one\x1b: two\x0aforged`},
		"within each other":     {errors.Join(one, errors.Join(two, one)), `one\x1b|two\x0aforged|one\x1b`},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := strings.Join(ErrorLines(c.err), "|"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := Sprintf("%v", c.err); got != strings.ReplaceAll(c.want, "|", "\n") {
				t.Errorf("%%v is %s, want %s", got, c.want)
			}
		})
	}
}

func TestFailingWriter(t *testing.T) {
	w := NewWriter(failing{})
	if n, err := w.Write([]byte("a")); n != 0 || err == nil {
		t.Error(n, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no") }
