package qacct

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/execd-project/execd/accounting"
)

// hostileRecord returns a record with the given text in every text field.
func hostileRecord(text string) *accounting.Record {
	r := killed(7)
	for _, f := range reflect.ValueOf(r).Elem().Fields() {
		if f.Kind() == reflect.String {
			f.SetString(text)
		}
	}
	r.Limit.Name = text
	return r
}

// TestHostileRecords prints records written by another user: each has as many lines as one with
// harmless text, and contains no terminal control sequences.
func TestHostileRecords(t *testing.T) {
	options := [][]string{
		{"-j", "7"}, {"-j"}, {"-json", "-j"}, {"-o"}, {"-g"}, {"-h"}, {"-q"}, {"-P"}, {"-D"}, {"-pe"}, {"-A"}, {"-json", "-o", "-g", "-A"}, {},
	}
	of := func(text string, args []string) string {
		var all strings.Builder
		for _, lines := range []string{
			string(accounting.AppendJSON(nil, hostileRecord(text))),
			// Not in the format of AppendClassic.
			strings.ReplaceAll(strings.ReplaceAll(string(accounting.AppendClassic(nil, hostileRecord("X"))), "X", strings.ReplaceAll(text, "\n", "\v")), "\r", "\v"),
		} {
			_, out, errs := call(t, lines, "", append([]string{"-f", "-"}, args...)...)
			all.WriteString(out + errs)
		}
		return all.String()
	}
	for _, text := range []string{
		"\x1b]0;owned\a", "x\nowner        root\n", "\x9b2J", "\u009b2J", "\u202eabc", "a\u2028b", "\x7f", "b\xff", "\r\tx", "a\x00",
	} {
		for _, args := range options {
			shown, harmless := of(text, args), of("plain", args)
			if got, want := strings.Count(shown, "\n"), strings.Count(harmless, "\n"); got != want {
				t.Errorf("qacct %q of %q has %d lines, want %d:\n%s", args, text, got, want, shown)
			}
			i := strings.IndexFunc(shown, func(r rune) bool {
				return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
			})
			if i >= 0 || !utf8.ValidString(shown) {
				t.Errorf("qacct %q of %q: %q", args, text, shown)
			}
		}
		line := accounting.AppendJSON(nil, hostileRecord(text))
		if !json.Valid(line) || strings.Count(string(line), "\n") != 1 {
			t.Errorf("the record of %q is %q", text, line)
		}
		if line := string(accounting.AppendClassic(nil, hostileRecord(text))); strings.Count(line, "\n") != 1 || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl) || !utf8.ValidString(line) {
			t.Errorf("the classic record of %q is %q", text, line)
		}
	}
}
