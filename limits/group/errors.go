package group

import "strconv"

// NotSupportedError says what cannot be done with groups here, and what it
// would take: a kernel, a controller, a right.
type NotSupportedError struct {
	What  string // "freeze the group", "limit memory"
	Needs string // "Linux 5.14 (cgroup.kill)", "the memory controller"
	Err   error  // what the kernel said when it was tried; may be nil
}

func (e *NotSupportedError) Error() string {
	s := "cannot " + e.What + ": needs " + e.Needs
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the kernel's error.
func (e *NotSupportedError) Unwrap() error { return e.Err }

// A Process is one that outlived its kill.
type Process struct {
	PID   int
	Name  string // as in /proc/PID/stat
	State byte   // proc(5); 'D' is uninterruptible sleep, which SIGKILL waits for
}

// BusyError is returned when processes of a group are left after the time that
// was given.
type BusyError struct {
	Dir  string // a directory of the group
	Left []Process
}

func (e *BusyError) Error() string {
	const most = 5
	s := "cannot empty group " + strconv.Quote(e.Dir) + ": " + strconv.Itoa(len(e.Left)) + " processes are left"
	for i, p := range e.Left {
		if i == most {
			return s + ", ..."
		}
		s += [2]string{", ", ": "}[b2i(i == 0)] + strconv.Itoa(p.PID) + " (" + p.Name + ")"
		if p.State == 'D' {
			s += " in uninterruptible sleep"
		}
	}
	return s
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Error is an operation on a file of a group that failed. Its cause, mostly an
// errno, is found by errors.Is.
type Error struct {
	Op   string // "read", "write \"1\" to"
	Path string
	Err  error
}

func (e *Error) Error() string { return "cannot " + e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// SyntaxError is an error in the text of Paths.
type SyntaxError struct {
	Line    int // from 1
	Problem string
}

func (e *SyntaxError) Error() string {
	return "cannot read the paths of a group: line " + strconv.Itoa(e.Line) + ": " + e.Problem
}
