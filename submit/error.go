package submit

import (
	"strconv"
	"strings"
)

// CommandLine is the value of Error.Where for the arguments of the command itself.
const CommandLine = "command line"

// Error is an error in a source of options.
type Error struct {
	Where   string // CommandLine, or the name of the file
	Line    int    // of the file, from 1; 0 if the source has no lines
	Option  string // with its dash; empty if the error is not about an option
	Value   string // the option's values as read, or the word itself
	Problem string
	Err     error // the cause, if there is one
	Kind    ErrorKind
	Meant   string // for an unknown option: the most similar known one, "" if there is none
}

// ErrorKind is the kind of an error. Commands use it to print the original's text.
type ErrorKind uint8

// The kinds of errors.
const (
	OtherError ErrorKind = iota
	UnknownOption
	MissingValue   // of the Option
	MissingCommand // with -b y
	NoScript       // the script cannot be read: Value, or standard input
	NoOptionFile   // the file of -@ cannot be read
	NoChange       // jobs are named, but no option that changes them
	OtherCommand   // the option, in Value with its values, belongs to another command
	BadJob         // Value begins with a digit, but is neither a job number nor JOB_ID.TASKS
	NoJobs         // Value, a list of jobs, is empty
	BadName        // the job would be named after its command, Value, which is not a valid name
	EmptyCommand   // the command or script is an empty word; Option is -b if the command line has it
)

// Error returns "where:line: "option value": problem".
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
