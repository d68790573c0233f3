package messages

import (
	"fmt"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// Message describes an event of a job. Programs and webhooks get it as JSON.
type Message struct {
	// ID is different for each message, and the same for each attempt to deliver it.
	ID    string    `json:"id"`
	Event Event     `json:"event"`
	Time  time.Time `json:"time"`
	// Text is one line for people. It has no control characters.
	Text string `json:"text"`
	Host string `json:"host"` // host of the daemon
	Job  Job    `json:"job"`
	// After is the time in seconds of an event Pending.
	After int64 `json:"after,omitempty"`
	// Outcome describes how the job has finished; nil for an array job, or if it has not finished.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Tasks describes how the tasks of an array job have finished; nil if the message is not about its
	// end.
	Tasks *Tasks `json:"tasks,omitempty"`
	// SiteOnly and UserOnly restrict the message to the receivers of the site, or of the user.
	SiteOnly bool `json:"-"`
	UserOnly bool `json:"-"`
}

// Job is the job of a message.
type Job struct {
	ID        uint32    `json:"id"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Project   string    `json:"project,omitempty"`
	Array     bool      `json:"array"`
	Submitted time.Time `json:"submitted"`
}

// Outcome describes how a job or a task has finished.
type Outcome struct {
	Task       uint32  `json:"task,omitempty"` // 0 if the job is not an array job
	Queue      string  `json:"queue,omitempty"`
	ExitStatus int     `json:"exit_status"`
	Signal     int     `json:"signal,omitempty"`
	Failed     int     `json:"failed"`      // code of sge_status(5), 0 for none
	Error      bool    `json:"error_state"` // the job is in error state, and has not left
	Reason     string  `json:"reason"`      // one sentence; empty after success
	Wallclock  float64 `json:"wallclock"`   // seconds
	CPU        float64 `json:"cpu"`         // seconds
	MaxVmem    int64   `json:"maxvmem"`     // bytes
}

// Good reports whether the job or task has succeeded.
func (o *Outcome) Good() bool {
	return o.ExitStatus == 0 && o.Signal == 0 && o.Failed == 0 && !o.Error
}

// MostFailures is the number of failed tasks that a message describes.
const MostFailures = 10

// Tasks counts the finished tasks of an array job, and describes the first ones that failed.
type Tasks struct {
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Failures  []Outcome `json:"failures,omitempty"` // the first MostFailures of them
}

// events returns the events for which receivers may ask to get the message.
func (m *Message) events() []Event {
	list := []Event{m.Event}
	switch {
	case m.Event == Array && m.Tasks != nil && m.Tasks.Failed > 0:
		list = append(list, Failed)
	case m.Event == Failed && m.Outcome != nil && !m.Outcome.Error:
		list = append(list, Ended)
	}
	return list
}

// Describe sets Text. The name of the job and the reasons may be escaped already.
func (m *Message) Describe() {
	kind := "job"
	if m.Job.Array {
		kind = "array job"
	}
	text := fmt.Sprintf("%s %d (%s) of %s on %s ", kind, m.Job.ID, printable.Original(m.Job.Name), m.Job.Owner, m.Host)
	switch o := m.Outcome; {
	case m.Event == Test:
		text = "test message of " + m.Job.Owner + " on " + m.Host
	case m.Event == Pending:
		text += "has been pending for more than " + duration(m.After)
	case m.Event == Started:
		text += "started"
	case m.Tasks != nil:
		text += fmt.Sprintf("is done: %d %s succeeded, %d failed", m.Tasks.Succeeded, plural(m.Tasks.Succeeded, "task"), m.Tasks.Failed)
		if m.Tasks.Failed > 0 && len(m.Tasks.Failures) > 0 {
			var first []string
			for i := range m.Tasks.Failures {
				first = append(first, fmt.Sprintf("%d (%s)", m.Tasks.Failures[i].Task, m.Tasks.Failures[i].why()))
			}
			text += ": " + strings.Join(first, ", ")
			if m.Tasks.Failed > len(first) {
				text += ", ..."
			}
		}
	case o == nil:
		text += string(m.Event)
	case o.Error:
		text += "is in error state: " + o.why()
	case o.Good():
		text += "finished after " + duration(int64(o.Wallclock))
	default:
		text += "failed after " + duration(int64(o.Wallclock)) + ": " + o.why()
	}
	m.Text = printable.String(text)
}

// why returns the reason of a failure, not escaped.
func (o *Outcome) why() string {
	if o.Reason != "" {
		return printable.Original(o.Reason)
	}
	return fmt.Sprintf("exit status %d", o.ExitStatus)
}

func duration(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
