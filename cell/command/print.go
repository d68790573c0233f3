package command

import (
	"fmt"
	"strconv"

	"github.com/execd-project/execd/cell"
)

// say prints a line to standard output.
func (x *call) say(format string, args ...any) { fmt.Fprintf(&x.stdout, format+"\n", args...) }

// warn prints a line to standard error.
func (x *call) warn(format string, args ...any) { fmt.Fprintf(&x.stderr, format+"\n", args...) }

// fail prints a line to standard error and sets the exit status.
func (x *call) fail(exit int, format string, args ...any) {
	x.warn(format, args...)
	x.result.Exit = exit
}

// answer prints what the cell has answered, to standard output; what was refused makes
// the exit status 1.
func (x *call) answer(a *cell.Answer) {
	x.result.Actions = append(x.result.Actions, a.Actions...)
	for _, l := range a.Lines {
		x.say("%s", l.Text)
		if l.Denied {
			x.result.Exit = 1
			x.suggest(l.Text)
		}
	}
}

// number is a number as it is printed.
func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
