package command

import (
	"errors"
	"slices"

	"github.com/execd-project/execd/submit"
)

// qrsh is qrsh(1), and qlogin is qlogin(1).
var (
	qrsh   = command{name: "qrsh", derived: submitOptions(submit.Qrsh), usage: "[options] [command [command_args]]", run: (*call).qrsh, needs: needsInteractive(submit.Qrsh)}
	qlogin = command{name: "qlogin", derived: submitOptions(submit.Qlogin), usage: "[options]", run: (*call).qlogin, needs: needsInteractive(submit.Qlogin)}
)

func (x *call) qrsh()   { x.interactive(submit.Qrsh) }
func (x *call) qlogin() { x.interactive(submit.Qlogin) }

func needsInteractive(command submit.Commands) func(*Input, *wanted) {
	return func(in *Input, w *wanted) { needsRequest(in, w, command) }
}

// interactive submits a job with a terminal. It prints nothing about an accepted job unless
// -verbose asks for that.
func (x *call) interactive(command submit.Commands) {
	request, ok := x.request(command, x.interactiveError, x.isJob)
	if !ok {
		return
	}
	a, err := x.submit(x.wrapped(request))
	if a == nil && err == nil {
		return
	}
	if err != nil {
		for _, part := range refusalParts(err) {
			x.warn("%s", part)
		}
		x.result.Exit = refusal(err)
		x.suggest(ErrorText(err))
		return
	}
	if a.ID == 0 { // it was to be verified only
		x.answer(a)
		return
	}
	if x.manner.Verbose {
		x.say("Your job %d (%q) has been submitted", a.ID, request.Name)
		x.warn("waiting for interactive job to be scheduled ...")
	}
	x.result.Job, x.result.Interactive, x.result.Immediate = a.ID, true, request.Immediate
	x.result.Verbose, x.result.NoStdin = x.manner.Verbose, x.manner.NoStdin
	x.result.Actions = append(x.result.Actions, a.Actions...)
}

// wrapped returns a request whose command is run by the program that QRSH_WRAPPER names, with the
// words of the command as its arguments (sge_submit(1), qrsh).
func (x *call) wrapped(r *submit.Request) *submit.Request {
	wrapper := x.in.variable("QRSH_WRAPPER")
	if wrapper == "" || r.Login || !r.Binary {
		return r
	}
	w := *r
	w.Command, w.Args, w.NoShell = wrapper, slices.Concat([]string{r.Command}, r.Args), true
	return &w
}

// isJob reports whether the command requests a job and not a task of a job, and prints an error if
// not.
func (x *call) isJob(*submit.Request) bool {
	_, isTask, err := submit.ParseTask(x.in.Args, nil)
	if isTask = isTask && err == nil; isTask {
		x.fail(exitRefused, "error: a task of a running job is started on the host of the job, and by the command itself")
	}
	return !isTask
}

// isInteractive reports whether the command is one with a terminal.
func (x *call) isInteractive() bool { return x.in.Name == "qrsh" || x.in.Name == "qlogin" }

// interactiveError prints the error in the command line; the words and the exit status differ from
// qsub's (tested).
func (x *call) interactiveError(err error) {
	e, ok := errors.AsType[*submit.Error](err)
	u, isFile := errors.AsType[*unreadable](err)
	switch {
	case ok && e.Kind == submit.UnknownOption:
		x.fail(exitRefused, "error: invalid option argument %q", e.Value)
		if e.Meant != "" {
			x.warn("did you mean %s?", e.Meant)
		}
	case ok && isFile:
		x.fail(exitRefused, "error: error opening %s: %s", u.name, u.reason)
	default:
		x.submitError(err)
		x.result.Exit = exitRefused
	}
}

// Unscheduled returns the message of qrsh and qlogin for a job that could not start at once.
func Unscheduled(name string) string {
	return "Your \"" + name + "\" request could not be scheduled, try again later.\n"
}
