package qconf

import (
	"cmp"
	"errors"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// ErrNotFound is wrapped by the errors about objects that do not exist.
var ErrNotFound = errors.New("not found")

// ErrAmbiguous is wrapped by the errors of Queue.Instance where several host
// groups of a host set the same attribute (queue_conf(5), hostlist).
var ErrAmbiguous = errors.New("configuration ambiguous")

// Error is one thing that is wrong in one place. Functions that read a whole
// file or directory return all of them, joined with errors.Join; Errors takes
// them apart again.
type Error struct {
	File      string // as it was given to the reader, empty for a value from elsewhere
	Line      int    // from 1; 0 for the whole file
	Attribute string // empty if the error does not concern an attribute
	Value     string // the value that was refused, as written
	Problem   string // the error, and the value that was expected
	Err       error  // ErrNotFound, ErrAmbiguous or the cause; may be nil
}

// Error returns "file:line: attribute: problem", without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			b.WriteString(":" + strconv.Itoa(e.Line))
		}
		b.WriteString(": ")
	}
	if e.Attribute != "" {
		b.WriteString(e.Attribute + ": ")
	}
	b.WriteString(textfile.Shorten(e.Problem))
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errors returns every *Error that err holds, in order.
func Errors(err error) []*Error {
	var found []*Error
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
	case *Error:
		found = append(found, e)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			found = append(found, Errors(part)...)
		}
	case interface{ Unwrap() error }:
		found = Errors(e.Unwrap())
	}
	return found
}

// Within returns the error as seen from outside of the directory in which its file is.
func (e *Error) Within(dir string) *Error {
	if dir == "" || e.File == "" {
		return e
	}
	there := *e
	there.File = pathpkg.Join(dir, e.File)
	return &there
}

// Within returns the *Errors in err with dir prepended to the names of their files, joined, in the
// order of SortErrors. It returns an err without any *Error unchanged.
func Within(dir string, err error) error {
	found := Errors(err)
	if dir == "" || len(found) == 0 {
		return err
	}
	for i, e := range found {
		found[i] = e.Within(dir)
	}
	return inOrder(found)
}

// SortErrors sorts by file and line. Errors of the same line keep their order.
func SortErrors(found []*Error) {
	slices.SortStableFunc(found, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

// inOrder joins errors by file and line.
func inOrder(found []*Error) error {
	SortErrors(found)
	sorted := make([]error, len(found))
	for i, e := range found {
		sorted[i] = e
	}
	return errors.Join(sorted...)
}

// errJoin joins errors in order.
func errJoin(errs []error, more ...error) error { return errors.Join(append(errs, more...)...) }
