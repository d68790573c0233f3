package external

import (
	"strings"
	"time"

	"github.com/execd-project/execd/loadsensor/protocol"
)

// State is the state of a sensor; see the diagram in the package comment.
type State string

// The states of a sensor.
const (
	Waiting State = "waiting" // not running; it will be started
	Asked   State = "asked"   // running, with a pending report
	Running State = "running" // running, without a pending report
	Ending  State = "ending"  // told to stop, and not stopped yet
	Ended   State = "ended"   // stopped for good
)

// Status is the status of a sensor.
type Status struct {
	Path  string    `json:"path"`
	User  string    `json:"user,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // time at which it entered this state
	PID   int       `json:"pid,omitempty"`

	// Fault is the reason for the last failure: the sensor could not be started, it exited, or it
	// did not answer. It is cleared by the next whole report.
	Fault     string    `json:"fault,omitempty"`
	NextStart time.Time `json:"next_start,omitzero"` // of a waiting sensor

	Starts     int           `json:"starts"`
	Reports    int           `json:"reports"`
	LastReport time.Time     `json:"last_report,omitzero"`
	Took       time.Duration `json:"took_ns"` // from the last request to its report
	Values     int           `json:"values"`  // of the last report

	// Violations is the total number; only the last ones are kept in the list.
	Violations     int                  `json:"violations"`
	LastViolations []protocol.Violation `json:"last_violations,omitempty"`
	// Stderr holds the last lines that the sensor wrote to standard error.
	Stderr []string `json:"stderr,omitempty"`

	// Exposed says which other users can change the program, if the agent runs without root's
	// rights. An agent of root does not start such a program.
	Exposed string `json:"exposed,omitempty"`
	// Unwatched is the reason why changes of the file are noticed only when the sensor is asked.
	Unwatched string `json:"unwatched,omitempty"`
}

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	Started     Kind = "started"
	CannotStart Kind = "cannot-start"
	Reported    Kind = "reported"  // a whole report has arrived
	Violated    Kind = "violation" // the output was invalid
	Wrote       Kind = "stderr"    // a line on standard error
	Failed      Kind = "failed"    // it failed, and will be stopped or has exited
	Changed     Kind = "changed"   // it will be restarted because its file has changed
	Killed      Kind = "killed"    // it was killed because it did not stop when told to
	Stuck       Kind = "stuck"     // it did not even exit after SIGKILL
	Gone        Kind = "gone"      // its process has exited
	Stopped     Kind = "stopped"   // it stops because Stop was called
)

// Event is an event of a sensor.
type Event struct {
	Path string
	Kind Kind
	Text string // for a log
	PID  int    // 0 if there is no process

	Violation *protocol.Violation // of Violated
	Values    []protocol.Value    // of Reported
	Took      time.Duration       // of Reported: since the request
	Asked     bool                // of Reported: there was a request
}

// Limits for the recorded faults.
const (
	keptViolations = 10
	keptStderr     = 10
	maxStderrLine  = 200
	// toldPerRequest is the number of violations and lines on standard error that cause an event
	// until the next request; further ones are only counted.
	toldPerRequest = 20
)

// stderrLines splits standard error into lines of limited length.
type stderrLines struct {
	part []byte
	cut  bool
}

func (l *stderrLines) feed(p []byte, line func(string)) {
	for _, c := range p {
		switch {
		case c == '\n':
			l.flush(line)
		case len(l.part) < maxStderrLine:
			l.part = append(l.part, c)
		default:
			l.cut = true
		}
	}
}

func (l *stderrLines) flush(line func(string)) {
	if len(l.part) > 0 {
		s := strings.TrimSuffix(strings.ToValidUTF8(string(l.part), "\uFFFD"), "\r")
		if l.cut {
			s += "..."
		}
		line(s)
	}
	l.part, l.cut = l.part[:0], false
}

// keepLast appends to a list of limited length, and drops the oldest elements.
func keepLast[T any](list []T, v T, most int) []T {
	if len(list) >= most {
		list = append(list[:0:0], list[len(list)-most+1:]...)
	}
	return append(list, v)
}
