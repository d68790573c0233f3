package jobdir

import (
	"errors"
	"strconv"
)

// ErrExists is the error if a job already has a directory: its start was ordered twice, or a
// previous run left the directory behind.
var ErrExists = errors.New("the job directory exists already")

// ErrIncomplete is the error for a job directory without a config file. The process that made it
// was interrupted, and nothing was started from it.
var ErrIncomplete = errors.New("the job directory has no config file: it was never finished")

// SyntaxError is a syntax error in a file of a job directory.
type SyntaxError struct {
	File    string
	Line    int    // from 1; 0 for the whole file
	Key     string // the key, variable or field; empty if there is none
	Problem string
}

func (e *SyntaxError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		s += ": " + e.Key
	}
	return s + ": " + e.Problem
}

// ValueError is the error for a job's value that the format of a file cannot represent. Nothing was
// written.
type ValueError struct {
	File    string
	Key     string
	Problem string
}

func (e *ValueError) Error() string {
	return "cannot write " + e.Key + " to file " + e.File + ": " + e.Problem
}

// quote quotes a value of a user for a message, and shortens it if it is very long.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Error is a failed operation on a file or directory. errors.Is finds its cause, usually an errno.
type Error struct {
	Op   string // "create", "remove", "read" ...
	Path string
	Err  error
}

func (e *Error) Error() string { return "cannot " + e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
