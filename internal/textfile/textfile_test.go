package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	for text, limit := range map[string]int64{"": 0, "abc": 3, "abcd": 5} {
		if b, err := ReadAll(strings.NewReader(text), limit); err != nil || string(b) != text {
			t.Errorf("%q: %q, %v", text, b, err)
		}
	}
	for text, limit := range map[string]int64{"a": 0, "abcd": 3} {
		b, err := ReadAll(strings.NewReader(text), limit)
		if e, ok := errors.AsType[*SizeError](err); !ok || e.Limit != limit || b != nil {
			t.Errorf("%q: %q, %v", text, b, err)
		}
	}
	bad := errors.New("bad spot")
	if _, err := ReadAll(iotest.ErrReader(bad), 1); !errors.Is(err, bad) {
		t.Error(err)
	}
}

func TestReadFS(t *testing.T) {
	files := fstest.MapFS{
		"dir/file": {Data: []byte("text")}, "large": {Data: []byte("texts")}, "pipe": {Mode: fs.ModeNamedPipe},
	}
	for name, want := range map[string]string{
		"dir/file": "", "large": "large: it has more than 4 bytes, which is the limit", "pipe": "open pipe: it is not a regular file",
		"dir": "open dir: it is not a regular file", "missing": "open missing: file does not exist",
	} {
		text, err := ReadFS(files, name, 4)
		if want == "" && (err != nil || string(text) != "text") || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for want, e := range map[string]*SizeError{
		"it has more than 8 MiB, which is the limit":                 {Limit: 8 << 20},
		"f: it has more than 64 KiB, which is the limit":             {Name: "f", Limit: 64 << 10},
		"f:7: the line has more than 1000 bytes, which is the limit": {Name: "f", Line: 7, Limit: 1000},
	} {
		if e.Error() != want {
			t.Errorf("%q, expected %q", e, want)
		}
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("é", 1000)
	s := Shorten(long)
	if Shorten("short") != "short" || len(s) > 700 || !strings.HasPrefix(s, "éé") || !strings.HasSuffix(s, "éé") || !strings.Contains(s, "[... 1400 bytes ...]") {
		t.Errorf("%q", s)
	}
}

// lines reads all lines; numbers of those that are too long come in brackets.
func lines(t testing.TB, r io.Reader, limit int) (got []string, err error) {
	t.Helper()
	l := NewLines(r, limit)
	for n := 1; ; n++ {
		line, err := l.Next()
		e, tooLong := errors.AsType[*SizeError](err)
		switch {
		case errors.Is(err, io.EOF):
			return got, nil
		case tooLong:
			got = append(got, fmt.Sprintf("[%d]", e.Line))
		case err != nil:
			return got, err
		default:
			got = append(got, string(line))
		}
		if l.Number() != n {
			t.Errorf("line %d has the number %d", n, l.Number())
		}
	}
}

func TestLines(t *testing.T) {
	const buffer = 1 << 16
	long := strings.Repeat("x", 3*buffer)
	for name, c := range map[string]struct {
		text  string
		limit int
		want  []string
	}{
		"nothing":                         {"", 10, nil},
		"lines":                           {"a\n\nb\n", 10, []string{"a\n", "\n", "b\n"}},
		"a last line without an end":      {"a\nb", 10, []string{"a\n", "b"}},
		"too long":                        {"abc\nd\n", 3, []string{"[1]", "d\n"}},
		"just not too long":               {"ab\nd\n", 3, []string{"ab\n", "d\n"}},
		"longer than the buffer":          {long + "\na\n", 4 * buffer, []string{long + "\n", "a\n"}},
		"and without an end":              {"a\n" + long, 4 * buffer, []string{"a\n", long}},
		"longer than buffer and limit":    {long + "\na\n", buffer + 1, []string{"[1]", "a\n"}},
		"as long as the limit":            {long + "\na\n", 3*buffer + 1, []string{long + "\n", "a\n"}},
		"one byte longer":                 {long + "\na\n", 3 * buffer, []string{"[1]", "a\n"}},
		"too long at the end":             {"a\n" + long, buffer, []string{"a\n", "[2]"}},
		"several that are too long":       {long + "\n" + long + "\na", 5, []string{"[1]", "[2]", "a"}},
		"as long as the buffer":           {long[:buffer-1] + "\na\n", buffer, []string{long[:buffer-1] + "\n", "a\n"}},
		"too long and as the buffer is":   {long[:buffer-1] + "\na\n", 9, []string{"[1]", "a\n"}},
		"too long by the buffer's length": {long[:buffer] + "\na\n", 9, []string{"[1]", "a\n"}},
	} {
		for way, r := range map[string]io.Reader{"at once": strings.NewReader(c.text), "in pieces": iotest.HalfReader(strings.NewReader(c.text))} {
			got, err := lines(t, r, c.limit)
			if err != nil || strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("%s, %s: %.100q, %v", name, way, got, err)
			}
		}
	}
	bad := errors.New("bad spot")
	got, err := lines(t, io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(bad)), 10)
	if !errors.Is(err, bad) || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestEndlessLine checks that a line that is too long is refused as soon as it reaches the limit.
func TestEndlessLine(t *testing.T) {
	read := 0
	r := readerFunc(func(p []byte) (int, error) {
		read += len(p)
		if read > 10<<20 {
			return 0, errors.New("too much was read")
		}
		return len(p), nil
	})
	if _, err := NewLines(r, 1<<20).Next(); !errors.As(err, new(*SizeError)) {
		t.Error(err)
	}
	read = 0
	if _, err := ReadLines(r, 1<<30, 1<<20); !errors.As(err, new(*SizeError)) {
		t.Error(err)
	}
	read = 0
	if _, err := ReadAll(r, 1<<20); !errors.As(err, new(*SizeError)) {
		t.Error(err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReadLines(t *testing.T) {
	if text, err := ReadLines(strings.NewReader("ab\nc"), 4, 3); err != nil || string(text) != "ab\nc" {
		t.Errorf("%q, %v", text, err)
	}
	for text, want := range map[string]SizeError{"a\nbcd\n": {Line: 2, Limit: 3}, "a\nb\nc": {Limit: 4}} {
		_, err := ReadLines(strings.NewReader(text), 4, 3)
		if e, ok := errors.AsType[*SizeError](err); !ok || *e != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReader(t *testing.T) {
	for text, tooLarge := range map[string]bool{"": false, "ab": false, "abc": false, "abcd": true, "abcdef": true} {
		got, err := io.ReadAll(NewReader(iotest.OneByteReader(strings.NewReader(text)), 3))
		if errors.As(err, new(*SizeError)) != tooLarge || !tooLarge && err != nil || string(got) != text[:min(3, len(text))] {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// FuzzLines compares Lines with bytes.SplitAfter, except for lines that are too long.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbcd\n\ne"), 3)
	f.Add(bytes.Repeat([]byte{'x'}, 1<<17), 1<<16)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = max(limit, 0)
		got, err := lines(t, bytes.NewReader(text), limit)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, line := range bytes.SplitAfter(text, []byte{'\n'}) {
			switch {
			case len(line) == 0: // behind the last newline
			case len(line) > limit:
				want = append(want, fmt.Sprintf("[%d]", i+1))
			default:
				want = append(want, string(line))
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q, expected %q", got, want)
		}
	})
}
