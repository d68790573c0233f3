package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/textfile"
)

// Line is a step of a script. Kind says which of the fields apply.
type Line struct {
	Number int // of the line in the file, from 1
	Kind   Kind

	User    string   // user who runs a command
	Command string   // command line for a shell
	Remark  string   // text in parentheses after the command
	Answer  []string // output of the command, line by line

	Wait    time.Duration // whole seconds; for a reservation, the time until its start
	Capture string        // name of the step: a directory below output
	Load    *Load
	Epoch   int64  // seconds since 1970
	Comment string // without "# "
}

// Kind is the kind of a line.
type Kind uint8

// The kinds of lines.
const (
	Comment     Kind = iota // for the reader only
	Command                 // User runs Command
	Wait                    // nothing happens for Wait
	Capture                 // the state is printed
	LoadChange              // Load is reported
	Clock                   // the time is Epoch
	Alone                   // each of the following jobs runs alone in the cluster
	Reservation             // the reservation of the next command begins after Wait
)

// Load is a change of a load value of a host.
type Load struct{ Host, Attribute, Value string }

// Error is a syntax error in a line of a script.
type Error struct {
	Line    int // from 1
	Text    string
	Problem string // the error, and what was expected
}

// Error returns "line N: "text": problem".
func (e *Error) Error() string {
	return fmt.Sprintf("line %d: %s: %s", e.Line, textfile.Shorten(strconv.Quote(e.Text)), e.Problem)
}

// maxErrors is the maximum number of errors that Parse returns for a script.
const maxErrors = 100

const answerMark = "   ->"

// commandLine matches USER: COMMAND, and a remark. A remark contains no parentheses.
var commandLine = lazyregexp.New(`^([A-Za-z_][\w.-]*): +(\S.*?)(?:   +\((.*)\))?\s*$`)

// Parse reads a script. The error joins the first hundred errors, each an *Error; no lines are
// returned then.
func Parse(text string) ([]Line, error) {
	var lines []Line
	var errs []error
	number := 0
	answering := false
	for raw := range strings.Lines(text) {
		number++
		raw = strings.TrimRight(raw, "\r\n")
		fail := func(problem string) { errs = append(errs, &Error{Line: number, Text: raw, Problem: problem}) }
		switch {
		case len(errs) == maxErrors:
			fail(fmt.Sprintf("there are %d errors, what follows has not been read", maxErrors))
			return nil, errors.Join(errs...)
		case len(raw) > textfile.MaxLine:
			fail(fmt.Sprintf("the line has more than %d MiB", textfile.MaxLine>>20))
			continue
		}
		if answer, ok := strings.CutPrefix(raw, answerMark); ok {
			if !answering {
				fail("an answer belongs behind a command or another answer")
				continue
			}
			last := &lines[len(lines)-1]
			last.Answer = append(last.Answer, strings.TrimPrefix(answer, " "))
			continue
		}
		answering = false
		if comment, ok := strings.CutPrefix(raw, "#"); ok {
			l, err := parseComment(strings.TrimSpace(comment))
			if err != nil {
				fail(err.Error())
				continue
			}
			l.Number = number
			lines = append(lines, l)
			continue
		}
		m := commandLine().FindStringSubmatch(raw)
		if m == nil {
			fail("expected USER: COMMAND, \"   -> ANSWER\" or \"# COMMENT\"")
			continue
		}
		answering = true
		lines = append(lines, Line{Number: number, Kind: Command, User: m[1], Command: m[2], Remark: m[3]})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return lines, nil
}

var (
	waitLine        = lazyregexp.New(`^wait (\d{1,9}) s$`)
	captureLine     = lazyregexp.New(`^capture output/([\w.-]+)$`)
	loadLine        = lazyregexp.New(`^(?:load value )?([^:\s]+):([^:\s]+) changed to (\S+)$`)
	clockLine       = lazyregexp.New(`^(?:T0 = (\d{1,12})\b|.*\(epoch (\d{1,12})\)$)`)
	reservationLine = lazyregexp.New(`^reservation \d+\b.*: starts (\d{1,9}) s after submission\b`)
)

// instructions lists the beginnings of comments with a meaning. Such a comment in any other format
// is an error, and not a remark for the reader.
var instructions = []struct{ prefix, expected string }{
	{"wait ", `"wait N s"`},
	{"capture ", `"capture output/STEP", with letters, digits, ".", "_" and "-" in STEP`},
	{"load value ", `"load value HOST:ATTRIBUTE changed to VALUE"`},
}

// parseComment parses the text after the #.
func parseComment(text string) (Line, error) {
	if m := waitLine().FindStringSubmatch(text); m != nil {
		return Line{Kind: Wait, Wait: seconds(m[1])}, nil
	}
	if m := captureLine().FindStringSubmatch(text); m != nil && strings.Trim(m[1], ".") != "" {
		return Line{Kind: Capture, Capture: m[1]}, nil
	}
	if m := loadLine().FindStringSubmatch(text); m != nil {
		return Line{Kind: LoadChange, Load: &Load{Host: m[1], Attribute: m[2], Value: m[3]}}, nil
	}
	if m := clockLine().FindStringSubmatch(text); m != nil {
		return Line{Kind: Clock, Epoch: int64(seconds(m[1]+m[2]) / time.Second), Comment: text}, nil
	}
	if m := reservationLine().FindStringSubmatch(text); m != nil {
		return Line{Kind: Reservation, Wait: seconds(m[1]), Comment: text}, nil
	}
	if strings.HasPrefix(text, "every job below runs alone") {
		return Line{Kind: Alone, Comment: text}, nil
	}
	for _, i := range instructions {
		if strings.HasPrefix(text, i.prefix) {
			return Line{}, errors.New("expected " + i.expected)
		}
	}
	return Line{Kind: Comment, Comment: text}, nil
}

// seconds parses digits, whose number the caller has limited.
func seconds(digits string) time.Duration {
	n := int64(0)
	for _, d := range []byte(digits) {
		n = 10*n + int64(d-'0')
	}
	return time.Duration(min(n, 1<<33)) * time.Second
}

// Format formats a script. Parsing the result returns the same lines, except for their numbers.
func Format(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		switch l.Kind {
		case Command:
			b.WriteString(l.User + ": " + l.Command)
			if l.Remark != "" {
				b.WriteString("   (" + l.Remark + ")")
			}
			b.WriteString("\n")
			for _, a := range l.Answer {
				b.WriteString(answerMark + " " + a + "\n")
			}
		case Wait:
			b.WriteString("# wait " + strconv.FormatInt(int64(l.Wait/time.Second), 10) + " s\n")
		case Capture:
			b.WriteString("# capture output/" + l.Capture + "\n")
		case LoadChange:
			b.WriteString("# load value " + l.Load.Host + ":" + l.Load.Attribute + " changed to " + l.Load.Value + "\n")
		default:
			b.WriteString("# " + l.Comment + "\n")
		}
	}
	return b.String()
}

// Duration returns the duration of a line in milliseconds, if the script determines it.
func (l *Line) Duration() int64 {
	if l.Kind == Wait {
		return l.Wait.Milliseconds()
	}
	return 0
}
