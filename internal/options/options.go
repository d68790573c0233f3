// Package options reads the options of a command from its help text: the text that --help prints
// is the only description of them. Parse takes the names of the options and whether they have a
// value from it, so that help and parser cannot differ; shell completion and the test of the
// manual pages read the same text. It is pure, and not for import by other projects.
package options

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
)

// ExitUsage is the exit status of a command whose command line is wrong, unless the command
// passes on the status of a job (execd attach).
const ExitUsage = 2

// ErrHelp is returned by Parse if the command line requests the help text.
var ErrHelp = errors.New("the help text is asked for")

// UsageError is an error in the command line of a command.
type UsageError struct {
	Problem string
	Unknown string // the name of the option that the command does not have; empty for other errors
}

func (e *UsageError) Error() string { return e.Problem }

// Usagef returns a *UsageError with a formatted problem.
func Usagef(format string, args ...any) error {
	return &UsageError{Problem: fmt.Sprintf(format, args...)}
}

// Exit returns the exit status of a command for an error of Parse, and the error to print. If the
// command line asks for the help text, Exit writes it to out, and the status is 0.
func Exit(out io.Writer, help string, err error) (int, error) {
	if !errors.Is(err, ErrHelp) {
		return ExitUsage, err
	}
	_, err = io.WriteString(out, help)
	return 0, err
}

// Option is an option as a help text describes it.
type Option struct {
	Name  string // without dashes
	Value string // the placeholder of its value, such as FILE; empty for a switch
	Text  string // the description in one line
}

// Repeats reports whether the option may be given more than once with all values in effect.
func (o *Option) Repeats() bool { return strings.Contains(o.Text, "may be repeated") }

var (
	optionLine = regexp.MustCompile(`^  --([a-z][a-z-]*)(?: ([A-Z]+))?(?:  +(.*))?$`)
	moreText   = regexp.MustCompile(`^ {6,}(\S.*)$`)
)

// Read returns the options that a help text describes, in its order. An option is described by
// a line that begins with two spaces and the option; lines that are indented further continue it.
func Read(help string) []Option {
	var all []Option
	inside := false
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		if m := optionLine.FindStringSubmatch(line); m != nil {
			all = append(all, Option{Name: m[1], Value: m[2], Text: m[3]})
			inside = true
			continue
		}
		more := moreText.FindStringSubmatch(line)
		if inside = inside && more != nil; inside {
			o := &all[len(all)-1]
			o.Text = strings.TrimSpace(o.Text + " " + more[1])
		}
	}
	return all
}

// Values are the variables that Parse sets, by the names of the options: a *string for an option
// with a value, a *[]string for one that may be repeated, a *bool for a switch.
type Values map[string]any

// Line is a command line that Parse has taken apart.
type Line struct {
	Operands []string       // the words that are not options
	Given    map[string]int // how often an option was given, by its name
}

// Parse parses a command line. Options and operands may stand in any order, "--" ends the options;
// -name means --name, and --name=value is the same as --name value. If an option that may not be
// repeated is given more than once, the last value counts. The error is a *UsageError, or ErrHelp
// if the command line asks for help. Any other error is an internal one: the help text and the
// variables do not have the same options.
func Parse(help string, args []string, to Values) (*Line, error) {
	known := Read(help)
	if err := check(known, to); err != nil {
		return nil, err
	}
	l := &Line{Given: map[string]int{}}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			l.Operands = append(l.Operands, args...)
			break
		}
		if len(word) < 2 || word[0] != '-' {
			l.Operands = append(l.Operands, word)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		if name == "help" || name == "h" {
			return nil, ErrHelp
		}
		o := find(known, name)
		if o == nil {
			return nil, &UsageError{"unknown option --" + name + hint(known, name), name}
		}
		l.Given[name]++
		if on, ok := to[name].(*bool); ok {
			var err error
			if *on = true; joined {
				*on, err = strconv.ParseBool(value)
			}
			if err != nil {
				return nil, Usagef("--%s takes no value, but was given %q", name, value)
			}
			continue
		}
		if !joined {
			if len(args) == 0 {
				return nil, Usagef("--%s needs a value: --%s %s", name, name, o.Value)
			}
			value, args = args[0], args[1:]
		}
		switch v := to[name].(type) {
		case *string:
			*v = value
		case *[]string:
			*v = append(*v, value)
		}
	}
	return l, nil
}

func find(known []Option, name string) *Option {
	for i := range known {
		if known[i].Name == name {
			return &known[i]
		}
	}
	return nil
}

// hint returns the question whether an option with a similar name was meant.
func hint(known []Option, name string) string {
	var names []string
	for _, o := range known {
		names = append(names, o.Name)
	}
	return nearest.Hint("--", name, names)
}

// check compares a help text with the variables.
func check(known []Option, to Values) error {
	fits := 0
	for _, o := range known {
		if o.Name == "help" {
			continue
		}
		ok := false
		switch to[o.Name].(type) {
		case *bool:
			ok = o.Value == ""
		case *string:
			ok = o.Value != "" && !o.Repeats()
		case *[]string:
			ok = o.Value != "" && o.Repeats()
		}
		if !ok {
			return errors.New("internal error: no variable fits the help text of --" + o.Name)
		}
		fits++
	}
	if fits != len(to) {
		return errors.New("internal error: a variable has no help text")
	}
	return nil
}
