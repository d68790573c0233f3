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
	Kind    ErrorKind
	Meant   string // of an unknown option: the one that was probably meant, "" if none is near
}

// ErrorKind says what is wrong, for commands that have a text of their own for it.
type ErrorKind uint8

// The kinds of errors.
const (
	OtherError ErrorKind = iota
	UnknownOption
	MissingValue   // of the Option
	MissingCommand // with -b y
	NoScript       // it cannot be read: Value, or standard input
	NoOptionFile   // the file of -@ cannot be read
	NoChange       // jobs are named, and no option that changes them
	OtherCommand   // the option, Value with its values, is one of another command
	BadJob         // Value begins like the number of a job, and is neither that nor JOB_ID.TASKS
	NoJobs         // Value, a list of jobs, is empty
	BadName        // the job would be named after its command, Value, and cannot be
)

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
