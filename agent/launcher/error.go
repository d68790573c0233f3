package launcher

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Error is why an order was not carried out.
type Error struct {
	Code  string `json:"code"`
	Errno int    `json:"errno,omitempty"` // of the system call; 0 for none
	Text  string `json:"text"`
	// GPUs and Scratch are errors of these types, for the front: launch.GPUError, and launch.ScratchError with the text of
	// its cause. Nil for others.
	GPUs    *launch.GPUError `json:"gpus,omitempty"`
	Scratch *scratchError    `json:"scratch,omitempty"`
}

// scratchError is a launch.ScratchError.
type scratchError struct {
	Limit qconf.ScratchLimit `json:"limit"`
	Text  string             `json:"text"`
}

// The codes. The codes in known stand for errors of other packages.
const (
	codeFailed  = "failed"
	codeRefused = "refused" // the order may not be given
	codeOrder   = "order"   // it describes no job that can run: a *launch.OrderError
	codeTask    = "task"    // it describes no task that can run: a *launch.TaskError
)

// ErrMailer says that the launcher does not run a mailer, because root's configuration has another one.
var ErrMailer = errors.New("root's configuration has another mailer")

// known are the errors by which callers decide.
var known = map[string]error{
	"exists": jobdir.ErrExists, "incomplete": jobdir.ErrIncomplete, "not-found": fs.ErrNotExist,
	"foreground": launch.ErrForeground, "launched": launch.ErrLaunched, "supervised": launch.ErrSupervised,
	"no-group-id": launch.ErrNoGroupID, "kept": launch.ErrKept, "not-running": launch.ErrNotRunning,
	"no-terminal": launch.ErrNoTerminal, "mailer": ErrMailer,
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the errors that the error stands for.
func (e *Error) Unwrap() []error {
	var list []error
	if err := known[e.Code]; err != nil {
		list = append(list, err)
	}
	if e.Errno > 0 {
		list = append(list, syscall.Errno(e.Errno))
	}
	if e.GPUs != nil {
		list = append(list, e.GPUs)
	}
	if e.Scratch != nil {
		list = append(list, &launch.ScratchError{Limit: e.Scratch.Limit, Err: errors.New(e.Scratch.Text)})
	}
	return list
}

// errorOf describes an error for the other side.
func errorOf(err error) *Error {
	e := &Error{Code: codeFailed, Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno = int(errno)
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		e.Code = codeRefused
		return e
	}
	if _, ok := errors.AsType[*launch.OrderError](err); ok {
		e.Code = codeOrder
		return e
	}
	if t, ok := errors.AsType[*launch.TaskError](err); ok {
		e.Code, e.Text = codeTask, t.Err.Error()
		return e
	}
	if g, ok := errors.AsType[*launch.GPUError](err); ok {
		e.GPUs = g
	}
	if s, ok := errors.AsType[*launch.ScratchError](err); ok {
		e.Scratch = &scratchError{s.Limit, s.Err.Error()}
	}
	for code, one := range known {
		if errors.Is(err, one) {
			e.Code = code
		}
	}
	return e
}

// refusal is why an order may not be given.
type refusal struct{ err error }

// Error returns the text.
func (r *refusal) Error() string { return "the launcher refuses the order: " + r.err.Error() }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.err }
