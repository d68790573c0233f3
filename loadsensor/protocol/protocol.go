// Package protocol parses the output of load sensors: the load sensor interface of sge_execd(8).
//
// Other projects should not import this package: it may change at any time.
//
// A report is a line "begin" or "start", lines "host:name:value", and a line "end". Only whole
// reports count: an unfinished report is dropped. An invalid line is reported as a Violation, and
// does not affect other lines.
//
// The package does no I/O and uses no clock. The caller passes bytes as they arrive, in pieces of
// any size. A Decoder holds at most one report, of limited size. A Decoder is for one goroutine.
package protocol

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Requests to a sensor: for a report, and to quit.
const (
	Request = "\n"
	Quit    = "quit\n"
)

// GlobalHost is the host of values for the whole cluster.
const GlobalHost = "global"

// Limits for a sensor's output.
const (
	MaxLine   = 10000 // bytes of a line, as in the original
	MaxValues = 10000 // values of a report
	MaxReport = 1 << 20
)

// Value is one load value of a report, with its text as the sensor wrote it. The receiver of the
// report knows the complex, and thus the type.
type Value struct {
	Host string `json:"host"` // as the sensor wrote it; GlobalHost for the cluster
	Name string `json:"name"`
	Text string `json:"value"`
	Line int    `json:"line"` // of the sensor's output, the first is 1
}

// Violation is an error of a sensor against the protocol.
type Violation struct {
	Line     int    `json:"line,omitempty"`     // of the sensor's output, from 1; 0 without a line
	Text     string `json:"text,omitempty"`     // the line, shortened if it is long
	Problem  string `json:"problem"`            // the error
	Expected string `json:"expected,omitempty"` // the correct form; empty if the problem includes it
	// Harmless is true if the meaning was clear, and the Decoder has used it. The original may not.
	Harmless bool `json:"harmless,omitempty"`
}

// String returns the violation in one line.
func (v Violation) String() string {
	var b strings.Builder
	if v.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", v.Line)
		if v.Text != "" {
			fmt.Fprintf(&b, "%q: ", v.Text)
		}
	}
	b.WriteString(v.Problem)
	if v.Expected != "" {
		b.WriteString(", expected ")
		b.WriteString(v.Expected)
	}
	return b.String()
}

const (
	expectedBegin = `"begin" on a line of its own`
	expectedLine  = `host:name:value, or "end"`
)

// Decoder parses the output of one sensor process. The zero value is ready to use once its
// functions are set.
type Decoder struct {
	// Report receives the values of each whole report, in the order of their lines.
	Report func([]Value)
	// Violation receives each error, before the report that contains it.
	Violation func(Violation)

	line     []byte // unfinished line
	tooLong  bool   // the unfinished line is skipped
	lines    int    // number of finished lines
	begun    int    // line number of the begin; 0 outside a report
	outside  bool   // lines outside reports were reported since the last report
	size     int    // of the report
	tooLarge bool
	values   []Value
	seen     map[[2]string]int
}

// Lines returns the number of lines read so far.
func (d *Decoder) Lines() int { return d.lines }

// Feed processes the next piece of output.
func (d *Decoder) Feed(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if room := MaxLine - len(d.line); len(part) > room {
			part, d.tooLong = part[:room], true
		}
		d.line = append(d.line, part...)
		if i < 0 {
			return
		}
		p = p[i+1:]
		d.lines++
		d.finish()
		d.line, d.tooLong = d.line[:0], false
	}
}

// Close processes the end of the output, and reports an unfinished line or report.
func (d *Decoder) Close() {
	if len(d.line) > 0 {
		d.lines++
		d.tell(true, "the output ends in the middle of a line", "a newline", false)
	}
	if d.begun > 0 {
		d.unfinished("the output ends in the middle of a report")
	}
	d.line, d.tooLong, d.outside = nil, false, false
	d.drop()
}

// Abandon drops an unfinished report, and reports this with the reason why.
func (d *Decoder) Abandon(why string) {
	if d.begun > 0 {
		d.unfinished(why)
	}
	d.drop()
}

// finish processes the line in d.line.
func (d *Decoder) finish() {
	if d.tooLong {
		d.tell(true, "the line is too long", fmt.Sprintf("at most %d bytes", MaxLine), false)
		return
	}
	line := string(d.line)
	if cut, ok := strings.CutSuffix(line, "\r"); ok {
		d.tell(true, "the line ends with a carriage return", "a newline alone", true)
		line = cut
	}
	if line == "" {
		return
	}
	word := strings.TrimSpace(line)
	switch word {
	case "begin", "start", "end":
		if word != line {
			d.tell(true, "there are blanks around the word", word, true)
		}
	}
	switch word {
	case "begin", "start":
		if d.begun > 0 {
			d.unfinished(fmt.Sprintf("the next report begins in line %d", d.lines))
		}
		d.drop()
		d.begun = d.lines
	case "end":
		d.end()
	default:
		d.value(line)
	}
}

func (d *Decoder) end() {
	if d.begun == 0 {
		d.tell(true, "a report ends that has not begun", expectedBegin, false)
		return
	}
	values, tooLarge := d.values, d.tooLarge
	d.outside = false
	d.drop()
	if !tooLarge && d.Report != nil {
		d.Report(values)
	}
}

// drop discards the unfinished report.
func (d *Decoder) drop() {
	d.begun, d.size, d.tooLarge, d.values, d.seen = 0, 0, false, nil, nil
}

func (d *Decoder) value(line string) {
	if d.begun == 0 {
		// One violation is enough: a sensor that has lost track writes thousands of such lines.
		if !d.outside {
			d.tell(true, "the line is outside of a report", expectedBegin, false)
		}
		d.outside = true
		return
	}
	if d.tooLarge {
		return
	}
	if !utf8.ValidString(line) || strings.ContainsFunc(line, isControl) {
		d.tell(true, "the line has characters that are no text", expectedLine, false)
		return
	}
	v, problem := split(line)
	if problem != "" {
		d.tell(true, problem, expectedLine, false)
		return
	}
	if trimmed := (Value{strings.TrimSpace(v.Host), strings.TrimSpace(v.Name), strings.TrimSpace(v.Text), 0}); trimmed != v {
		d.tell(true, "there are blanks around a part of the line", "host:name:value without blanks", true)
		v = trimmed
	}
	switch {
	case v.Host == "":
		problem = "the host is empty"
	case v.Name == "":
		problem = "the name of the load value is empty"
	case v.Text == "":
		problem = "the value is empty"
	case strings.ContainsAny(v.Host, " \t"):
		problem = "the host has blanks"
	case strings.ContainsAny(v.Name, " \t"):
		problem = "the name of the load value has blanks"
	}
	if problem != "" {
		d.tell(true, problem, expectedLine, false)
		return
	}
	v.Line = d.lines
	d.keep(v)
}

// keep adds a value to the report. Of two values with the same name the last one counts.
func (d *Decoder) keep(v Value) {
	key := [2]string{v.Host, v.Name}
	if i, ok := d.seen[key]; ok {
		d.tell(true, fmt.Sprintf("the value was already given in line %d; the last one counts", d.values[i].Line), "each value once", true)
		d.size += len(v.Text) - len(d.values[i].Text)
		d.values[i] = v
	} else {
		if d.seen == nil {
			d.seen = map[[2]string]int{}
		}
		d.seen[key] = len(d.values)
		d.size += len(v.Host) + len(v.Name) + len(v.Text)
		d.values = append(d.values, v)
	}
	if len(d.values) > MaxValues || d.size > MaxReport {
		d.tell(false, "the report is too large and is not used",
			fmt.Sprintf("at most %d values with together %d bytes", MaxValues, MaxReport), false)
		begun := d.begun
		d.drop()
		d.begun, d.tooLarge = begun, true
	}
}

func (d *Decoder) unfinished(why string) {
	d.violate(Violation{
		Line: d.begun, Problem: fmt.Sprintf("the report that begins here is not used: %s", why), Expected: `"end" on a line of its own`,
	})
}

// tell reports a violation in the last line, with its text if that is useful.
func (d *Decoder) tell(text bool, problem, expected string, harmless bool) {
	v := Violation{Line: d.lines, Problem: problem, Expected: expected, Harmless: harmless}
	if text {
		v.Text = shorten(d.line)
	}
	d.violate(v)
}

func (d *Decoder) violate(v Violation) {
	if d.Violation != nil {
		d.Violation(v)
	}
}

// split splits a line into its fields. The value is everything after the second colon.
func split(line string) (Value, string) {
	host, rest, found := strings.Cut(line, ":")
	if !found {
		return Value{}, "the line has no colon"
	}
	name, text, found := strings.Cut(rest, ":")
	if !found {
		return Value{}, "the line has one colon only"
	}
	return Value{Host: host, Name: name, Text: text}, ""
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == utf8.RuneError }

// maxShown is the maximum length, in bytes, of an invalid line in a violation.
const maxShown = 200

func shorten(line []byte) string {
	if len(line) <= maxShown {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	return strings.ToValidUTF8(string(line[:maxShown]), "\uFFFD") + "..."
}
