package command

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
)

// option is a row of the table of options of a command.
type option struct {
	name string // with its dash
	long string // another spelling, with its dashes; "" for none
	args string // its values in the usage text
	// values is the number of words that must follow, optional the number of further words that may
	// follow unless they begin with a dash.
	values, optional int
	// rest says that all words up to the next option are its values.
	rest bool
	// operand says that it stays among the operands, with its value.
	operand bool
	help    string
}

// anyNumber is the number of further words that options of qstat and similar commands take (tested).
const anyNumber = math.MaxInt32

// given is an option of a command line.
type given struct {
	name   string // as in the table
	values []string
}

// value returns the only value of an option, "" if it has none.
func (g *given) value() string {
	if len(g.values) == 0 {
		return ""
	}
	return g.values[0]
}

// line is a parsed command line.
type line struct {
	given    []given
	operands []string
}

// has reports whether an option was given.
func (l *line) has(name string) bool {
	return slices.ContainsFunc(l.given, func(g given) bool { return g.name == name })
}

// last returns the value of the last occurrence of an option.
func (l *line) last(name string) (string, bool) {
	for _, g := range slices.Backward(l.given) {
		if g.name == name {
			return g.value(), true
		}
	}
	return "", false
}

// all returns the values of all occurrences of an option.
func (l *line) all(name string) []string {
	var all []string
	for _, g := range l.given {
		if g.name == name {
			all = append(all, g.values...)
		}
	}
	return all
}

// lists returns the elements of all lists that an option has, which are separated by commas.
func (l *line) lists(name string) []string {
	var all []string
	for _, g := range l.given {
		if g.name == name {
			for _, v := range g.values {
				all = append(all, list(v)...)
			}
		}
	}
	return all
}

// list returns a list separated by commas. Empty elements are left out.
func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

// optionError is a word of a command line that cannot be used.
type optionError struct {
	word    string
	missing bool   // it is an option, whose values are missing
	last    string // the word after which a value is missing
	empty   bool   // a value is missing, and the word is empty
	meant   string // a similar option, "" if there is none
}

// Error returns the error in words that do not depend on the command.
func (e *optionError) Error() string {
	if e.missing || e.empty {
		return "option " + e.word + " needs a value"
	}
	return "unknown option " + e.word
}

func find(options []option, word string) *option {
	for i := range options {
		if o := &options[i]; o.name == word || o.long != "" && o.long == word {
			return o
		}
	}
	return nil
}

// meant returns the option that is most similar to a mistyped one, or "".
func meant(options []option, word string) string {
	var names []string
	for i := range options {
		names = append(names, options[i].name)
		if options[i].long != "" {
			names = append(names, options[i].long)
		}
	}
	if len(word) > 64 {
		return ""
	}
	if w, ok := nearest.Word(word, names); ok {
		return w
	}
	if w := "-" + strings.TrimLeft(word, "-"); slices.Contains(names, w) {
		return w
	}
	return ""
}

// parse parses a command line. Options and operands may stand in any order; "--" ends the options.
func parse(options []option, args []string) (*line, error) {
	l := &line{}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--":
			l.operands = append(l.operands, args...)
			return l, nil
		case len(word) < 2 || word[0] != '-':
			l.operands = append(l.operands, word)
			continue
		}
		o := find(options, word)
		if o == nil {
			return nil, &optionError{word: word, meant: meant(options, word)}
		}
		if o.operand {
			l.operands = append(l.operands, word)
			l.operands, args = append(l.operands, args[:min(1, len(args))]...), args[min(1, len(args)):]
			continue
		}
		if len(args) < o.values {
			return nil, &optionError{word: word, missing: true, last: cmp.Or(append([]string{word}, args...)[len(args)], word)}
		}
		n := o.values
		for o.rest && n < len(args) && (find(options, args[n]) == nil || find(options, args[n]).operand) {
			n++
		}
		for n < o.values+o.optional && n < len(args) && !strings.HasPrefix(args[n], "-") {
			n++
		}
		l.given = append(l.given, given{name: o.name, values: slices.Clone(args[:n])})
		args = args[n:]
	}
	return l, nil
}

// text returns the output of -help: the synopsis of the command and its options.
func (c *command) text() string {
	var b strings.Builder
	b.WriteString(version + "\nusage: " + strings.TrimSpace(c.name+" "+c.usage) + "\n")
	indent, column := strings.Repeat(" ", cmp.Or(c.indent, 3)), cmp.Or(c.column, 44)
	options := c.all()
	for i := range options {
		o := &options[i]
		head := indent + "[" + strings.TrimSpace(o.name+" "+o.args) + "]"
		if len(head) >= column {
			b.WriteString(head + "\n")
			head = ""
		}
		for j, explanation := range strings.Split(o.help, "\n") {
			if j > 0 {
				head = ""
			}
			b.WriteString(head + strings.Repeat(" ", column-len(head)) + explanation + "\n")
		}
	}
	return b.String()
}

// version is the first line of the output of -help. Scripts read the version of Grid Engine from
// it.
const version = "SGE 8.1.9"
