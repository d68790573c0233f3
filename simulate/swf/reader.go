package swf

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"

	"github.com/execd-project/execd/internal/textfile"
)

// Limits of a trace, in bytes. A record has about a hundred bytes.
const (
	maxLine   = textfile.MaxLine
	maxHeader = 256 << 10
	maxTrace  = 2 << 30 // unpacked
)

// Error is an error in a trace.
type Error struct {
	File    string
	Line    int    // from 1
	Field   int    // from 1; 0 for the whole line
	Value   string // the field as it was read
	Problem string // the error, and what was expected
	Err     error  // the cause, if there is one
}

// Error returns "file:line: field N (name): "value": problem".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Field > 0 {
		s += fmt.Sprintf("field %d (%s): %q: ", e.Field, fields[e.Field-1].name, e.Value)
	}
	return s + e.Problem
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Reader reads a trace.
type Reader struct {
	name    string
	lines   *textfile.Lines
	text    []byte // the last line read
	line    int    // its number
	err     error  // why there is no next line; nil at the end of the trace
	header  Header
	pending bool // text is the first record
	done    bool
}

// NewReader reads the header of a trace, which may be compressed with gzip. name is used in errors.
func NewReader(name string, r io.Reader) (*Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	var unpacked io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("cannot read the trace %q: %w", name, err)
		}
		unpacked = z
	}
	s := &Reader{name: name, lines: textfile.NewLines(textfile.NewReader(unpacked, maxTrace), maxLine)}
	size := 0
	for s.next() {
		line := bytes.TrimSpace(s.text)
		comment, isComment := bytes.CutPrefix(line, []byte(";"))
		switch {
		case isComment:
			if size += len(comment); size > maxHeader {
				return nil, &Error{File: name, Line: s.line, Problem: fmt.Sprintf("the comments in front of the records have more than %d KiB, which is the limit", maxHeader>>10)}
			}
			s.header = s.header.add(string(comment))
		case len(line) > 0:
			s.pending = true
			return s, nil
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return s, nil
}

// Header returns the header of the trace: the comments before the first record.
func (r *Reader) Header() Header { return r.header }

// next reads the next line, and reports whether there is one.
func (r *Reader) next() bool {
	if r.done {
		return false
	}
	line, err := r.lines.Next()
	if err == nil {
		r.text, r.line = bytes.TrimRight(line, "\r\n"), r.lines.Number()
		return true
	}
	r.done = true
	switch e, ok := errors.AsType[*textfile.SizeError](err); {
	case errors.Is(err, io.EOF):
	case ok && e.Line > 0:
		r.err = &Error{File: r.name, Line: e.Line, Problem: fmt.Sprintf("the line has more than %d bytes", maxLine), Err: err}
	default:
		r.err = &Error{File: r.name, Line: r.line + 1, Problem: "cannot read on: " + err.Error(), Err: err}
	}
	return false
}

// Records returns the records that have not yet been read, in their order. An invalid line yields
// an *Error, together with the fields that could be read, and reading continues after it. Reading
// ends after any other error.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r.pending || r.next() {
			r.pending = false
			rec, found, err := r.parse(r.text)
			if (found || err != nil) && !yield(rec, err) {
				return
			}
		}
		if r.err != nil {
			yield(Record{}, r.err)
		}
	}
}

// Name returns the name of the trace, for errors.
func (r *Reader) Name() string { return r.name }

// Line returns the line number of the last record read, from 1.
func (r *Reader) Line() int { return r.line }

// parse parses a line. found is false for an empty line.
func (r *Reader) parse(line []byte) (rec Record, found bool, err error) {
	integers := rec.integers()
	n := 0
	for i := 0; ; n++ {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) || n == 0 && line[i] == ';' {
			break
		}
		start := i
		for i < len(line) && !isBlank(line[i]) {
			i++
		}
		if n >= len(fields) {
			continue
		}
		word := line[start:i]
		var problem string
		if v := integers[n]; v != nil {
			*v, problem = parseInt(word, fields[n].fraction)
		} else {
			rec.CPU, problem = parseFloat(word)
		}
		if problem != "" && err == nil {
			err = &Error{File: r.name, Line: r.line, Field: n + 1, Value: string(word), Problem: problem}
		}
	}
	if err == nil && n > 0 && n != len(fields) {
		err = &Error{File: r.name, Line: r.line, Problem: fmt.Sprintf("the line has %d fields, expected %d", n, len(fields))}
	}
	return rec, n > 0, err
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// parseInt parses an integer or, if fraction is set, a number with a fraction, which is rounded.
func parseInt(word []byte, fraction bool) (v int64, problem string) {
	digits := word
	if len(word) > 0 && (word[0] == '-' || word[0] == '+') {
		digits = word[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return parseSlowly(word, fraction)
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return parseSlowly(word, fraction)
		}
		v = 10*v + int64(c-'0')
	}
	if word[0] == '-' {
		v = -v
	}
	return v, ""
}

func parseSlowly(word []byte, fraction bool) (int64, string) {
	v, err := strconv.ParseInt(string(word), 10, 64)
	switch {
	case err == nil:
		return v, ""
	case errors.Is(err, strconv.ErrRange):
		return 0, "is too large, expected a number below 2^63"
	case !fraction:
		return 0, "is not a whole number"
	}
	f, problem := parseFloat(word)
	if problem == "" && math.Abs(f) >= 1<<53 {
		problem = "is too large, expected a number below 2^53"
	}
	if problem != "" {
		return 0, problem
	}
	return int64(math.RoundToEven(f)), ""
}

// parseFloat parses a number in the format of Append.
func parseFloat(word []byte) (float64, string) {
	for _, c := range word {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c|0x20 != 'e' {
			return 0, "is not a number"
		}
	}
	f, err := strconv.ParseFloat(string(word), 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "is too large"
	}
	if err != nil {
		return 0, "is not a number"
	}
	return f, ""
}
