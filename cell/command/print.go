package command

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// output is the output of a command. Users have chosen most of its text, and other users read it, so
// each method escapes the text that it adds (package printable).
type output struct{ text strings.Builder }

// line adds a line. It escapes the arguments, but not the format.
func (o *output) line(format string, args ...any) { printer.Fprintf(&o.text, format+"\n", args...) }

// lines adds text of several lines, such as objects of the configuration and lists of options. Users
// cannot add line breaks to these.
func (o *output) lines(text string) { o.text.WriteString(printable.Lines(text)) }

// view adds the output of package qstat, which is escaped already.
func (o *output) view(text []byte) { o.text.Write(text) }

func (o *output) String() string { return o.text.String() }

// reset removes all text.
func (o *output) reset() { o.text.Reset() }

// say prints a line to standard output.
func (x *call) say(format string, args ...any) { x.stdout.line(format, args...) }

// warn prints a line to standard error.
func (x *call) warn(format string, args ...any) { x.stderr.line(format, args...) }

// fail prints a line to standard error and sets the exit status.
func (x *call) fail(exit int, format string, args ...any) {
	x.warn(format, args...)
	x.result.Exit = exit
}

// answer prints the events of an answer of the cell to standard output. If the cell has refused
// anything, the exit status is 1.
func (x *call) answer(a *cell.Answer) {
	x.result.Actions = append(x.result.Actions, a.Actions...)
	for _, e := range a.Events {
		text := EventText(e)
		x.say("%s", text)
		if e.Denied {
			x.result.Exit = 1
			x.suggest(text)
		}
	}
}

// number returns a number as it is printed.
func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
