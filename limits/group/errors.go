package group

import "strconv"

// NotSupportedError names an operation on groups that this host does not support, and what the
// operation requires: a kernel version, a controller or a right.
type NotSupportedError struct {
	What  string // "freeze the group", "limit memory"
	Needs string // "Linux 5.14 (cgroup.kill)", "the memory controller"
	Err   error  // the kernel's error; may be nil
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

// A Process is a process that has survived SIGKILL so far.
type Process struct {
	PID   int
	Name  string // as in /proc/PID/status
	State byte   // proc(5); 'D' is uninterruptible sleep, which delays SIGKILL
}

// BusyError is the error if processes of a group remain after the timeout.
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

// Error is a failed operation on a file of a group. errors.Is finds its cause, usually an errno.
type Error struct {
	Op   string // "read", "write \"1\" to"
	Path string
	Err  error
}

func (e *Error) Error() string { return "cannot " + e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// SyntaxError is a syntax error in the text form of Paths.
type SyntaxError struct {
	Line    int // from 1
	Problem string
}

func (e *SyntaxError) Error() string {
	return "cannot read the paths of a group: line " + strconv.Itoa(e.Line) + ": " + e.Problem
}
