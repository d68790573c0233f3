package printer

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/printable"
)

// Writer passes text on with special characters escaped, except for line breaks and tabs. It does
// not double backslashes, so already escaped text passes unchanged. It is placed between a command
// and the terminal, so that text which a command forgot to escape cannot control the terminal. A
// character may arrive in several parts; Flush writes an incomplete one.
//
// A Writer is for one goroutine.
type Writer struct {
	to   io.Writer
	part []byte // the beginning of a character
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	text := p
	if len(w.part) > 0 {
		text = append(w.part, p...)
	}
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-i:]) {
				whole -= i
			}
			break
		}
	}
	out := text[:whole]
	if bytes.ContainsFunc(out, suspect) {
		out = []byte(printable.Lines(string(out)))
	}
	part := append([]byte(nil), text[whole:]...)
	if len(out) > 0 {
		if _, err := w.to.Write(out); err != nil {
			return 0, err
		}
	}
	w.part = part
	return len(p), nil
}

// suspect reports whether a character may be one to escape; utf8.RuneError also represents bytes
// that are not UTF-8.
func suspect(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && printable.Special(r)
}

// Flush writes an incomplete character.
func (w *Writer) Flush() error {
	if len(w.part) == 0 {
		return nil
	}
	text := printable.Lines(string(w.part))
	w.part = nil
	_, err := io.WriteString(w.to, text)
	return err
}
