package sensor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/loadsensor/protocol"
)

// Severity is the severity of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // some data is lost
	Warning Severity = "warning" // works here, but may fail elsewhere or have another effect than intended
)

// Finding is an error or a warning.
type Finding struct {
	Severity Severity `json:"severity"`
	Cycle    int      `json:"cycle,omitempty"` // 0 if it does not concern a report
	Line     int      `json:"line,omitempty"`  // of the output of the process, from 1
	Text     string   `json:"text,omitempty"`  // the line
	Problem  string   `json:"problem"`
	Expected string   `json:"expected,omitempty"`
}

// String returns the finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Severity) + ": ")
	if f.Cycle > 0 {
		b.WriteString("cycle " + strconv.Itoa(f.Cycle) + ": ")
	}
	v := protocol.Violation{Line: f.Line, Text: f.Text, Problem: f.Problem, Expected: f.Expected}
	b.WriteString(v.String())
	return b.String()
}

// Cycle is one request and its answer.
type Cycle struct {
	Number  int              `json:"number"`  // 0 for a report without a request
	Seconds float64          `json:"seconds"` // from the request to the end of the report
	Values  []protocol.Value `json:"values"`
}

// Result is the result of a check.
type Result struct {
	Path     string    `json:"path"`
	User     string    `json:"user"`
	Host     string    `json:"host"`
	Status   int       `json:"status"` // the exit status
	Cycles   []Cycle   `json:"cycles"`
	Change   string    `json:"change,omitempty"` // result of the change of the file
	Quit     string    `json:"quit,omitempty"`   // how the sensor exited
	Findings []Finding `json:"findings"`
	Stderr   []string  `json:"stderr,omitempty"` // its output on standard error
}

func (r *Result) count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Text returns the result for people.
func (r *Result) Text() string {
	var b strings.Builder
	printer.Fprintf(&b, "%s: as user %s, host %s\n", r.Path, r.User, r.Host)
	for _, c := range r.Cycles {
		if c.Number > 0 {
			printer.Fprintf(&b, "cycle %d: %s in %.3f s\n", c.Number, plural(len(c.Values), "value"), c.Seconds)
		} else {
			printer.Fprintf(&b, "not asked for: %s\n", plural(len(c.Values), "value"))
		}
		for _, v := range c.Values {
			printer.Fprintf(&b, "  %s:%s:%s\n", v.Host, v.Name, v.Text)
		}
		if c.Number == cycles && r.Change != "" {
			printer.Fprintf(&b, "change: %s\n", r.Change)
		}
	}
	if r.Quit != "" {
		printer.Fprintf(&b, "quit: %s\n", r.Quit)
	}
	for _, line := range r.Stderr {
		printer.Fprintf(&b, "standard error: %s\n", line)
	}
	for _, f := range r.Findings {
		printer.Fprintf(&b, "%s\n", f)
	}
	printer.Fprintf(&b, "%s, %s\n", plural(r.count(Error), "error"), plural(r.count(Warning), "warning"))
	return b.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
