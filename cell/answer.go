package cell

import (
	"maps"
	"slices"

	"github.com/execd-project/execd/submit"
)

// Caller is the user who runs a command, and the host.
type Caller struct {
	User  string
	Group string // the primary group
	Host  string
	// Origin is stored with the jobs that the caller submits; nil if it is unknown.
	Origin *Origin
	// Submission is stored with the job that the caller submits. It is an identifier of the
	// submission for the execution side; the cell does not interpret it.
	Submission string
	// Confirms, if not nil, may refuse an alteration or a copy of a job. It returns the Submission
	// of the altered job or the copy.
	Confirms func(j *Job, is *submit.Request) (submission string, err error)
}

// Origin describes the place of a submission for the execution side and qstat -j. The cell stores
// it without interpreting it.
type Origin struct {
	UID, GID    int
	Directory   string   // working directory
	Environment []string // the variables from which submit.SubmitEnvironment makes SGE_O_ variables
}

// Answer is the result of a command and its consequences.
type Answer struct {
	// ID is the number of the new job or advance reservation.
	ID uint32
	// Events are the results, in the order in which Grid Engine prints them.
	Events []Event
	// Actions are the actions for the execution side, in order.
	Actions []Action
}

// say adds an event.
func (a *Answer) say(e Event) { a.Events = append(a.Events, e) }

// deny adds an event about an object that the command refuses.
func (a *Answer) deny(e Event) {
	e.Denied = true
	a.say(e)
}

// refuse adds the event of an error.
func (a *Answer) refuse(err error) { a.deny(eventOf(err)) }

// Denied reports whether the command refused any part of the request.
func (a *Answer) Denied() bool {
	return slices.ContainsFunc(a.Events, func(e Event) bool { return e.Denied })
}

// DeniedError is the refusal of a whole command: nothing has changed.
type DeniedError struct {
	// Event is the reason.
	Event Event
	// Report holds the events that Grid Engine prints before the reason, as for -w v.
	Report []Event
}

// Error describes the reason for logs.
func (e *DeniedError) Error() string { return e.Event.String() }

// Unwrap returns the cause that another package has found; nil if there is none.
func (e *DeniedError) Unwrap() error { return e.Event.Err }

func denied(e Event) *DeniedError {
	e.Denied = true
	return &DeniedError{Event: e}
}

// ActionKind is the kind of an action of an execution host.
type ActionKind uint8

// The kinds of actions.
const (
	StartTask ActionKind = iota
	SuspendTask
	ResumeTask
	KillTask       // and report the end
	RescheduleTask // like KillTask; the cell runs the task again, and its accounting record says so
)

// Action is an action for the execution side.
type Action struct {
	Kind ActionKind
	// Task is the task of the action. For StartTask its Running contains the granted slots,
	// elements of resource maps, and cores.
	Task *Task
	// Attempt is the number of the task's start, from 0. Reports about this start contain it.
	Attempt int
}

func (c *Cell) act(kind ActionKind, t *Task) {
	c.actions = append(c.actions, Action{Kind: kind, Task: t, Attempt: t.Restarts})
}

// take returns the pending actions and clears them.
func (c *Cell) take() []Action {
	actions := c.actions
	c.actions = nil
	return actions
}

func (c *Cell) done(a *Answer) *Answer {
	a.Actions = c.take()
	return a
}

// isManager reports whether a user is a manager, who may do everything.
func (c *Cell) isManager(user string) bool {
	return user == "root" || c.managers[user] || slices.Contains(c.cluster.Managers(), user)
}

// Managers returns the names of all managers (qconf(1), -sm), sorted: root, the managers of the
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

// IsOperator reports whether a user is an operator (qconf(1), -so). Managers are operators.
func (c *Cell) IsOperator(user string) bool { return c.isOperator(user) }

// isOperator reports whether a user may change objects of other users, except for the
// configuration.
func (c *Cell) isOperator(user string) bool {
	return c.isManager(user) || c.operators[user] || slices.Contains(c.cluster.Operators(), user)
}
