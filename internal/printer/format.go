// Package printer prints text that other people have chosen, in the form of package printable: by
// formats whose arguments are escaped, as the lines of errors, as JSON, and with a Writer as the
// last line of defence for whole outputs.
package printer

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/execd-project/execd/internal/printable"
)

// Sprintf formats like fmt.Sprintf, with each text among the arguments escaped: strings, errors and
// Stringers. The format is not escaped. %q puts the escaped text between quotation marks, and does
// not change backslashes and quotation marks in it.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, Args(args)...) }

// Fprintf prints like fmt.Fprintf, with each text among the arguments escaped.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, Args(args)...)
}

// Trusted is text that is printed unchanged, because it is constant, or made of escaped parts.
type Trusted string

// value is text that is escaped when it is printed.
type value string

// Format implements fmt.Formatter.
func (v value) Format(f fmt.State, verb rune) { format(f, verb, printable.String(string(v))) }

// format prints a text by a verb, %q with quotation marks around it.
func format(f fmt.State, verb rune, text string) {
	if verb == 'q' {
		verb, text = 's', `"`+text+`"`
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), text)
}

// Message formats like fmt.Sprintf a text that will be escaped when it is printed: %q puts strings
// unchanged between quotation marks, so that nothing is escaped twice.
func Message(layout string, args ...any) string {
	raw := make([]any, len(args))
	for i, a := range args {
		if s, ok := a.(string); ok {
			a = unescaped(s)
		}
		raw[i] = a
	}
	return fmt.Sprintf(layout, raw...)
}

// unescaped is text that is printed unchanged.
type unescaped string

// Format implements fmt.Formatter.
func (u unescaped) Format(f fmt.State, verb rune) { format(f, verb, string(u)) }

// stringer is a value that is printed by its String method, except with verbs for numbers.
type stringer struct{ fmt.Stringer }

// Format implements fmt.Formatter.
func (s stringer) Format(f fmt.State, verb rune) {
	if verb == 's' || verb == 'v' {
		fmt.Fprintf(f, fmt.FormatString(f, verb), printable.String(s.String()))
	} else {
		fmt.Fprintf(f, fmt.FormatString(f, verb), s.Stringer)
	}
}

// report is an error that is printed in its lines.
type report struct{ error }

// Format implements fmt.Formatter.
func (r report) Format(f fmt.State, verb rune) {
	text := r.Error()
	if verb != 'q' {
		text = strings.Join(ErrorLines(r.error), "\n")
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), text)
}

// Args returns the arguments of a format with each text escaped. Text of the type Trusted stays
// unchanged, and errors are printed as the lines of ErrorLines.
func Args(args []any) []any {
	escaped := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case Trusted:
			escaped[i] = string(a)
		case string:
			escaped[i] = value(a)
		case []byte:
			escaped[i] = value(a)
		case []string:
			list := make([]value, len(a))
			for j, s := range a {
				list[j] = value(s)
			}
			escaped[i] = list
		case error:
			escaped[i] = report{a}
		case fmt.Stringer:
			escaped[i] = stringer{a}
		default:
			escaped[i] = a
			if v := reflect.ValueOf(a); v.Kind() == reflect.String {
				escaped[i] = value(v.String())
			}
		}
	}
	return escaped
}
