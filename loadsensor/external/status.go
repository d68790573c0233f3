package external

import (
	"strings"
	"time"

	"github.com/execd-project/execd/loadsensor/protocol"
)

// State is the state of a sensor; see the picture in the comment of the package.
type State string

// The states of a sensor.
const (
	Waiting State = "waiting" // not running; it will be started
	Asked   State = "asked"   // it runs and owes a report
	Running State = "running" // it runs, and all that was asked for was answered
	Ending  State = "ending"  // it was told to end, and has not yet
	Ended   State = "ended"   // for good
)

// Status is the status of a sensor.
type Status struct {
	Path  string    `json:"path"`
	User  string    `json:"user,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // it is in this state
	PID   int       `json:"pid,omitempty"`

	// Fault is why the sensor is not as it should be: it could not be started, it
	// ended, it did not answer. It is empty again with the first whole report.
	Fault     string    `json:"fault,omitempty"`
	NextStart time.Time `json:"next_start,omitzero"` // of a sensor that waits

	Starts     int           `json:"starts"`
	Reports    int           `json:"reports"`
	LastReport time.Time     `json:"last_report,omitzero"`
	Took       time.Duration `json:"took_ns"` // from the last request to its report
	Values     int           `json:"values"`  // of the last report

	// Violations is how many there were; the last of them are kept.
	Violations     int                  `json:"violations"`
	LastViolations []protocol.Violation `json:"last_violations,omitempty"`
	// Stderr is the end of what the sensor wrote to standard error, in lines.
	Stderr []string `json:"stderr,omitempty"`

	// Exposed says who else can change the program of an agent without root's rights. An agent
	// of root does not start such a program.
	Exposed string `json:"exposed,omitempty"`
	// Unwatched is why changes of the file are seen only when the sensor is asked.
	Unwatched string `json:"unwatched,omitempty"`
}

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	Started     Kind = "started"
	CannotStart Kind = "cannot-start"
	Reported    Kind = "reported"  // a whole report has come
	Violated    Kind = "violation" // something was wrong with the output
	Wrote       Kind = "stderr"    // a line on standard error
	Failed      Kind = "failed"    // it will be ended, or has ended, for a fault of its own
	Changed     Kind = "changed"   // it will be started again since its file is another
	Killed      Kind = "killed"    // it did not end when it was told to
	Stuck       Kind = "stuck"     // it cannot even be killed
	Gone        Kind = "gone"      // its process has ended
	Stopped     Kind = "stopped"   // it ends since Stop was called
)

// Event is something that happened to a sensor.
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

// What is kept of faults.
const (
	keptViolations = 10
	keptStderr     = 10
	maxStderrLine  = 200
	// toldPerRequest is of how many violations and lines on standard error events are
	// made until the next request; the rest is only counted.
	toldPerRequest = 20
)

// stderrLines cuts standard error into lines of bounded length.
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

// keepLast appends to a list of bounded length.
func keepLast[T any](list []T, v T, most int) []T {
	if len(list) >= most {
		list = append(list[:0:0], list[len(list)-most+1:]...)
	}
	return append(list, v)
}
