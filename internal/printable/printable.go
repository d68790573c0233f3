// Package printable makes text from users and programs, such as names, paths and reasons, safe to
// print on a terminal and in a log. In such text, control characters could control the terminal, a
// line break could forge a line, and bidirectional controls could change how a line is displayed.
//
// Such characters are shown in hexadecimal, bytes as \x1b and characters as \u202e:
//
//   - C0 and DEL, among them tabs and line breaks;
//   - C1, which are U+0080 to U+009F in UTF-8, and single bytes in other encodings;
//   - the bidirectional controls of Unicode, and its separators of lines and paragraphs;
//   - bytes that are not UTF-8.
//
// All other text stays unchanged. The form is reversible: in a text that contains any of these
// characters, or that looks as if it had already been escaped, each backslash is doubled. So a text
// in which no backslash begins an escape is unchanged.
//
// Functions are pure and may be called from several goroutines. The supervisor links the package;
// functions that print with it are in package printer.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// Append appends s to dst, escaped.
func Append(dst []byte, s string) []byte {
	i := firstSuspect(s)
	if i < 0 {
		return append(dst, s...)
	}
	if !mustEscape(s[i:]) {
		return append(dst, s...)
	}
	return appendEscaped(dst, s, func(r rune) bool { return r == '\\' || Special(r) })
}

// String returns s, escaped.
func String(s string) string {
	if i := firstSuspect(s); i < 0 || !mustEscape(s[i:]) {
		return s
	}
	return string(appendEscaped(nil, s, func(r rune) bool { return r == '\\' || Special(r) }))
}

// Original reverts String.
func Original(s string) string {
	if !mustParse(s) {
		return s
	}
	b := make([]byte, 0, len(s))
	for len(s) > 0 {
		n := 1
		switch {
		case strings.HasPrefix(s, `\\`):
			b = append(b, '\\')
			n = 2
		case s[0] == '\\' && looksEscaped(s):
			if n = 4; s[1] == 'u' {
				n = 6
			}
			r := rune(0)
			for _, c := range []byte(s[2:n]) {
				r = r<<4 | rune(strings.IndexByte(hexDigits, c))
			}
			if n == 4 {
				b = append(b, byte(r))
			} else {
				b = utf8.AppendRune(b, r)
			}
		default:
			b = append(b, s[0])
		}
		s = s[n:]
	}
	return string(b)
}

// mustParse reports whether a text has an escape.
func mustParse(s string) bool {
	for i := range len(s) {
		if s[i] == '\\' && looksEscaped(s[i:]) {
			return true
		}
	}
	return false
}

// Lines escapes a text of several lines, except for its line breaks and tabs. The caller must make
// sure that the line breaks do not come from users.
func Lines(s string) string {
	if i := firstSuspect(s); i < 0 {
		return s
	}
	return string(appendEscaped(nil, s, specialInLines))
}

// Clip returns the longest prefix of s whose escaped form fits into width bytes. It does not cut
// characters.
func Clip(s string, width int) string { return Cut(String(s), width) }

// Cut returns the longest prefix of s that fits into width bytes. It does not cut characters.
func Cut(s string, width int) string {
	if len(s) <= width {
		return s
	}
	for width > 0 && !utf8.RuneStart(s[width]) {
		width--
	}
	return s[:width]
}

// firstSuspect returns the place of the first byte that may have to be escaped, -1 without one:
// most texts have none.
func firstSuspect(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '\\' {
			return i
		}
	}
	return -1
}

// mustEscape reports whether a text has special characters, or looks as if it had been escaped.
func mustEscape(s string) bool {
	for i, r := range s {
		switch {
		case r == '\\' && looksEscaped(s[i:]):
			return true
		case r == utf8.RuneError && invalid(s[i:]), Special(r):
			return true
		}
	}
	return false
}

// looksEscaped reports whether a text begins with an escape.
func looksEscaped(s string) bool {
	var n int
	switch {
	case strings.HasPrefix(s, `\x`):
		n = 2
	case strings.HasPrefix(s, `\u`):
		n = 4
	default:
		return false
	}
	if len(s) < 2+n {
		return false
	}
	return strings.Trim(s[2:2+n], hexDigits) == ""
}

// Special reports whether a character is never printed unescaped.
func Special(r rune) bool {
	switch {
	case r < ' ' || r >= 0x7f && r <= 0x9f:
		return true
	case r < 0x61c: // the first of the other special characters
		return false
	}
	return unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// specialInLines does what Special does, for texts of several lines: line feeds and tabs are not
// special.
func specialInLines(r rune) bool { return r != '\n' && r != '\t' && Special(r) }

// invalid reports whether a text, which begins with utf8.RuneError, begins with a byte that is not
// UTF-8.
func invalid(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

// appendEscaped appends s, and escapes the characters for which escape returns true.
func appendEscaped(dst []byte, s string, escape func(rune) bool) []byte {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && invalid(s[i:]):
			dst = appendByte(dst, s[i])
		case !escape(r):
			dst = utf8.AppendRune(dst, r)
		case r == '\\':
			dst = append(dst, `\\`...)
		case r < utf8.RuneSelf:
			dst = appendByte(dst, byte(r))
		default:
			dst = appendRune(dst, r)
		}
	}
	return dst
}

func appendByte(dst []byte, c byte) []byte {
	return append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendRune appends a character of the basic plane: all special ones are there.
func appendRune(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// AppendJSON appends text in JSON, and escapes the special characters that encoding/json does not
// (DEL, C1 and others) in the form \u009b. In JSON such characters only occur in strings, where the
// escape means the same.
func AppendJSON(dst, text []byte) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] < 0x7f {
			n++
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		if Special(r) {
			dst = appendRune(dst, r)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}
