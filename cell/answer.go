package cell

import (
	"maps"
	"slices"

	"github.com/execd-project/execd/internal/printer"
)

// Caller is who gives a command, and from which host.
type Caller struct {
	User  string
	Group string // the primary one
	Host  string
	// Origin stays with the jobs that the caller submits; nil where nothing is known.
	Origin *Origin
}

// Origin is what the execution side and qstat -j want to know of the place where a job was
// submitted. The cell keeps it and does not look at it.
type Origin struct {
	UID, GID    int
	Directory   string   // working directory
	Environment []string // that of qsub, as far as SGE_O_ variables are made of it (submit.SubmitEnvironment)
}

// Answer is what a command prints, and what follows from it.
type Answer struct {
	// ID is the number of the job or advance reservation that was made.
	ID    uint32
	Lines []Line
	// Actions are for the execution side, in their order.
	Actions []Action
}

// Line is a line that a command prints.
type Line struct {
	Text string
	// Denied says that what was asked for was not done.
	Denied bool
}

func (a *Answer) say(format string, args ...any) {
	a.Lines = append(a.Lines, Line{Text: printer.Message(format, args...)})
}

func (a *Answer) deny(format string, args ...any) {
	a.Lines = append(a.Lines, Line{Text: printer.Message(format, args...), Denied: true})
}

// Denied reports whether any of what was asked for was not done.
func (a *Answer) Denied() bool {
	for _, l := range a.Lines {
		if l.Denied {
			return true
		}
	}
	return false
}

// DeniedError is the refusal of a command as a whole: nothing has changed.
type DeniedError struct {
	Text string
	// Report are lines that are printed before Text, as for -w v.
	Report []string
	Err    error // the cause, where there is one
}

// Error is the text of the refusal, without what the command puts around it.
func (e *DeniedError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *DeniedError) Unwrap() error { return e.Err }

// Output is what qsub prints of the refusal.
func (e *DeniedError) Output() []string {
	lines := append(append([]string(nil), e.Report...), e.Text)
	lines[0] = "Unable to run job: " + lines[0]
	return append(lines, "Exiting.")
}

func denied(format string, args ...any) *DeniedError {
	return &DeniedError{Text: printer.Message(format, args...)}
}

// ActionKind is what an execution host is to do.
type ActionKind uint8

// The kinds of actions.
const (
	StartTask ActionKind = iota
	SuspendTask
	ResumeTask
	KillTask       // and report its end
	RescheduleTask // the same: the cell runs it again, and its record says so
)

// Action is something that the execution side has to do.
type Action struct {
	Kind ActionKind
	// Task is the task that it is about. A StartTask finds in its Running what was granted:
	// slots, the names of things of resource maps, and cores.
	Task *Task
	// Attempt is which start of the task it is about, from 0: reports about it name it.
	Attempt int
}

func (c *Cell) act(kind ActionKind, t *Task) {
	c.actions = append(c.actions, Action{Kind: kind, Task: t, Attempt: t.Restarts})
}

// take hands over the actions that have come up.
func (c *Cell) take() []Action {
	actions := c.actions
	c.actions = nil
	return actions
}

func (c *Cell) done(a *Answer) *Answer {
	a.Actions = c.take()
	return a
}

// isManager reports whether a user may do everything.
func (c *Cell) isManager(user string) bool {
	return user == "root" || c.managers[user] || slices.Contains(c.cluster.Managers(), user)
}

// Managers are the names of all managers (qconf(1), -sm), sorted: root, those of the
// configuration, and Options.Managers.
func (c *Cell) Managers() []string {
	names := append(slices.Collect(maps.Keys(c.managers)), c.cluster.Managers()...)
	names = append(names, "root")
	slices.Sort(names)
	return slices.Compact(names)
}

// IsManager reports whether a user is a manager (qconf(1), -sm): one of those of the
// configuration, one of Options.Managers, or root.
func (c *Cell) IsManager(user string) bool { return c.isManager(user) }

// IsOperator reports whether a user is an operator (qconf(1), -so), as managers are.
func (c *Cell) IsOperator(user string) bool { return c.isOperator(user) }

// isOperator reports whether a user may change what belongs to others, but for the
// configuration.
func (c *Cell) isOperator(user string) bool {
	return c.isManager(user) || c.operators[user] || slices.Contains(c.cluster.Operators(), user)
}
