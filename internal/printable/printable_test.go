package printable

import (
	"encoding/json"
	"errors"
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
		if back := Original(e); back != s {
			t.Errorf("%q is %q, which is %q", s, e, back)
		}
		if !strings.Contains(s, `\`) && e != String(e) && len(e) == len(s) {
			t.Errorf("%q is changed although nothing is special: %q", s, e)
		}
		harmless(t, Lines(s), "\n\t")
		if c := Clip(s, at&15); len(c) > at&15 || !strings.HasPrefix(e, c) || len(c) < min(len(e), at&15)-3 {
			t.Errorf("%d bytes of %q are %q", at&15, e, c)
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
