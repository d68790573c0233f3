package jobdir

import (
	"errors"
	"strconv"
)

// ErrExists is returned when a job has a directory already: its start has been
// ordered twice, or a previous run left it behind.
var ErrExists = errors.New("the job directory exists already")

// ErrIncomplete is returned for a job directory without a config file: its
// maker was interrupted, nothing has been started from it.
var ErrIncomplete = errors.New("the job directory has no config file: it was never finished")

// SyntaxError is an error in a file of a job directory.
type SyntaxError struct {
	File    string
	Line    int    // from 1; 0 when the file as a whole is meant
	Key     string // the key, variable or field; empty where there is none
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

// ValueError is a value of a job that cannot be written in the format of a
// file. Nothing has been written then.
type ValueError struct {
	File    string
	Key     string
	Problem string
}

func (e *ValueError) Error() string {
	return "cannot write " + e.Key + " to file " + e.File + ": " + e.Problem
}

// quote shows a foreign value in a message, whole unless it is very long.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Error is an operation on a file or directory that failed. Its cause, mostly
// an errno, is found by errors.Is.
type Error struct {
	Op   string // "create", "remove", "read" ...
	Path string
	Err  error
}

func (e *Error) Error() string { return "cannot " + e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
