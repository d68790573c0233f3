package printer

import (
	"errors"
	"strings"

	"github.com/execd-project/execd/internal/printable"
)

// ErrorLines returns the escaped lines of an error: one for each of the errors joined by
// errors.Join. A line break within the text of an error is escaped.
func ErrorLines(err error) []string {
	text := err.Error()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines, texts []string
		for _, e := range joined.Unwrap() {
			lines, texts = append(lines, ErrorLines(e)...), append(texts, e.Error())
		}
		if strings.Join(texts, "\n") == text { // and not fmt.Errorf with %w twice
			return lines
		}
	}
	// The wrapped error is usually at the end: "cannot read the file: ...".
	if inner := errors.Unwrap(err); inner != nil {
		if before, ok := strings.CutSuffix(text, inner.Error()); ok {
			lines := ErrorLines(inner)
			lines[0] = printable.String(before) + lines[0]
			return lines
		}
	}
	return []string{printable.String(text)}
}
