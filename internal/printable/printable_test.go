package printable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestString(t *testing.T) {
	for sentence, c := range map[string]struct{ text, want string }{
		"ordinary text":                 {"job.sh -x $HOME", "job.sh -x $HOME"},
		"ordinary UTF-8":                {"bücher 日本語 🙂 עברית", "bücher 日本語 🙂 עברית"},
		"ordinary backslashes":          {`DOMAIN\user \n \t \\`, `DOMAIN\user \n \t \\`},
		"an order to the terminal":      {"\x1b[2J", `\x1b[2J`},
		"a line break":                  {"a\nb\r\tc", `a\x0ab\x0d\x09c`},
		"DEL":                           {"a\x7f", `a\x7f`},
		"C1 as a byte":                  {"\x9b2J", `\x9b2J`},
		"C1 as a character":             {"\u009b2J", `\u009b2J`},
		"bidirectional controls":        {"\u202e\u2066\u200f\u061c", `\u202e\u2066\u200f\u061c`},
		"separators of lines":           {"a\u2028b\u2029c\u0085", `a\u2028b\u2029c\u0085`},
		"half a character":              {"b\xc3", `b\xc3`},
		"a replacement character stays": {"\ufffd", "\ufffd"},
		"what looks escaped":            {`\x1b`, `\\x1b`},
		"both":                          {"\\n\x1b", `\\n\x1b`},
		"the digits are others":         {`\x1B \xzz \u12 \u202E`, `\x1B \xzz \u12 \u202E`},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := String(c.text); got != c.want {
				t.Errorf("String(%q) = %q, want %q", c.text, got, c.want)
			}
			if got := string(Append([]byte("x"), c.text)); got != "x"+c.want {
				t.Errorf("Append(%q) = %q", c.text, got)
			}
		})
	}
}

var escape = regexp.MustCompile(`\\x([0-9a-f]{2})|\\u([0-9a-f]{4})`)

// original is the opposite of String.
func original(t *testing.T, s string) string {
	if !escape.MatchString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		switch at := escape.FindStringSubmatchIndex(s); {
		case strings.HasPrefix(s, `\\`):
			b.WriteByte('\\')
			s = s[2:]
		case at != nil && at[0] == 0 && at[2] >= 0:
			n, _ := strconv.ParseUint(s[at[2]:at[3]], 16, 8)
			b.WriteByte(byte(n))
			s = s[at[1]:]
		case at != nil && at[0] == 0:
			n, _ := strconv.ParseUint(s[at[4]:at[5]], 16, 32)
			b.WriteRune(rune(n))
			s = s[at[1]:]
		case s[0] == '\\':
			t.Fatalf("a single backslash in %q", s)
		default:
			_, size := utf8.DecodeRuneInString(s)
			b.WriteString(s[:size])
			s = s[size:]
		}
	}
	return b.String()
}

// harmless fails where text may be an order to a terminal.
func harmless(t *testing.T, text, allowed string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is no UTF-8", text)
	}
	for _, r := range text {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.In(r, unicode.Zl, unicode.Zp)) && !strings.ContainsRune(allowed, r) {
			t.Errorf("%q has %q", text, r)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\\x1b\x1b", "\\\\x00", "\u202e\\u202e\\", "\xed\xa0\x80", "\\\x9b\\u009b"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		e := String(s)
		harmless(t, e, "")
		if back := original(t, e); back != s {
			t.Errorf("%q is %q, which is %q", s, e, back)
		}
		if !strings.Contains(s, `\`) && e != String(e) && len(e) == len(s) {
			t.Errorf("%q is changed although nothing is special: %q", s, e)
		}
		harmless(t, Lines(s), "\n\t")
		if c := Clip(s, at&15); len(c) > at&15 || !strings.HasPrefix(e, c) || len(c) < min(len(e), at&15)-3 {
			t.Errorf("%d bytes of %q are %q", at&15, e, c)
		}
		// In two parts as in one, and what is escaped stays.
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
		if one.String() != two.String() || one.String() != Lines(s) {
			t.Errorf("%q is written as %q, in two parts as %q; as lines it is %q", s, &one, &two, Lines(s))
		}
		one.Reset()
		w = NewWriter(&one)
		if _, err := w.Write([]byte(e)); err != nil || one.String() != e {
			t.Errorf("%q is written as %q, %v", e, &one, err)
		}
		// JSON says the same.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := AppendJSON(nil, text)
		harmless(t, string(safe), "")
		var a, b string
		if err := errors.Join(json.Unmarshal(text, &a), json.Unmarshal(safe, &b)); err != nil || a != b {
			t.Errorf("%s is %s, %v", text, safe, err)
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
