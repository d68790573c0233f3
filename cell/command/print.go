package command

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// output is the output of a command. Users have chosen most of its text, and other users read it:
// each way to add to it escapes that (package printable).
type output struct{ text strings.Builder }

// line adds a line: a format of ours, whose arguments are escaped.
func (o *output) line(format string, args ...any) { printer.Fprintf(&o.text, format+"\n", args...) }

// lines adds text of several lines that no user can break: the objects of the configuration and
// the lists of options.
func (o *output) lines(text string) { o.text.WriteString(printable.Lines(text)) }

// view adds what package qstat has put together, where all is escaped.
func (o *output) view(text []byte) { o.text.Write(text) }

func (o *output) String() string { return o.text.String() }

// reset takes everything back.
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

// answer prints what the cell has answered, to standard output; what was refused makes
// the exit status 1.
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
