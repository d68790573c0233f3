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
)

// maxLine is the longest line that is read. Records have some hundred bytes.
const maxLine = 1 << 20

// Error is something in a trace that cannot be used.
type Error struct {
	File    string
	Line    int    // from 1
	Field   int    // from 1; 0 where the whole line is meant
	Value   string // the field as it was read
	Problem string // what is wrong, and what was expected
	Err     error  // the cause, where there is one
}

// Error is "file:line: field N (name): "value": problem".
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
	scanner *bufio.Scanner
	line    int
	header  Header
	pending bool // the scanner stands at the first record
	done    bool
}

// NewReader reads the header of a trace, which may be packed by gzip. The name is for
// errors.
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
	s := &Reader{name: name, scanner: bufio.NewScanner(unpacked)}
	s.scanner.Buffer(make([]byte, 1<<16), maxLine)
	for s.next() {
		line := bytes.TrimSpace(s.scanner.Bytes())
		comment, isComment := bytes.CutPrefix(line, []byte(";"))
		switch {
		case isComment:
			s.header = s.header.add(string(comment))
		case len(line) > 0:
			s.pending = true
			return s, nil
		}
	}
	if err := s.failure(); err != nil {
		return nil, err
	}
	return s, nil
}

// Header is what the comments in front of the first record say.
func (r *Reader) Header() Header { return r.header }

// next goes to the next line.
func (r *Reader) next() bool {
	if r.done || !r.scanner.Scan() {
		r.done = true
		return false
	}
	r.line++
	return true
}

// failure is why there is no next line.
func (r *Reader) failure() error {
	err := r.scanner.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return &Error{File: r.name, Line: r.line + 1, Problem: fmt.Sprintf("the line has more than %d bytes", maxLine), Err: err}
	}
	return &Error{File: r.name, Line: r.line + 1, Problem: "cannot read on: " + err.Error(), Err: err}
}

// Records are the records that have not yet been read, in their order. A line that
// is none yields an *Error with what could be read of it, and reading goes on behind
// it; after other errors it does not.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r.pending || r.next() {
			r.pending = false
			rec, found, err := r.parse(r.scanner.Bytes())
			if (found || err != nil) && !yield(rec, err) {
				return
			}
		}
		if err := r.failure(); err != nil {
			yield(Record{}, err)
		}
	}
}

// Line is the line of the record that was read last, from 1.
func (r *Reader) Line() int { return r.line }

// parse reads a line. found is false for one without anything.
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

// parseInt reads an integer, or a fraction, which is rounded.
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
		return 0, "is no whole number"
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

// parseFloat reads a number in the notation that Append has.
func parseFloat(word []byte) (float64, string) {
	for _, c := range word {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c|0x20 != 'e' {
			return 0, "is no number"
		}
	}
	f, err := strconv.ParseFloat(string(word), 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "is too large"
	}
	if err != nil {
		return 0, "is no number"
	}
	return f, ""
}
