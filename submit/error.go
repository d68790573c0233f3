package submit

import (
	"strconv"
	"strings"
)

// CommandLine is the Where of an error in the arguments of the command itself.
const CommandLine = "command line"

// Error is something in a source of options that cannot be used.
type Error struct {
	Where   string // CommandLine, or the name of the file
	Line    int    // of the file, from 1; 0 where there are no lines
	Option  string // with its dash; empty when it isn't about one
	Value   string // its values as they were read, or the word itself
	Problem string
	Err     error // the cause, where there is one
}

// Error is "where:line: "option value": problem".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Where)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if text := strings.TrimSpace(e.Option + " " + e.Value); text != "" {
		b.WriteString(": " + strconv.Quote(text))
	}
	b.WriteString(": " + e.Problem)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
