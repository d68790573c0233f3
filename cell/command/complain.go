package command

import (
	"errors"
	"strings"

	"github.com/execd-project/execd/scheduler/expression"
)

// usageError prints the error in the options of a command line, in the form of this command, and
// suggests a similar option.
func (x *call) usageError(err error) {
	how := x.self.complaint
	x.result.Exit = max(how.exit, 1)
	e, ok := errors.AsType[*optionError](err)
	switch {
	case !ok:
		x.warn("%s%s", how.prefix, err)
	case e.missing:
		x.warn("%s%s option must have argument", how.prefix, e.word)
	case e.empty:
		x.result.Exit = 1
		x.stderr.lines(x.self.text())
		x.warn("%s%s option must have argument", how.prefix, e.word)
		x.warn("%sinvalid option argument %q", how.prefix, "")
	default:
		if how.usage {
			x.stderr.lines(x.self.text())
		}
		x.warn("%sinvalid option argument %q", how.prefix, e.word)
		x.hint(e)
	}
}

// usable reports whether to carry out a parsed command line. If not, it prints the error, or the
// requested help.
func (x *call) usable(l *line, err error) bool {
	switch {
	case err != nil:
		x.usageError(err)
	case l.has("-help"):
		x.help()
	default:
		return x.brief(l)
	}
	return false
}

// mostExpressions is the maximum number of name expressions on a command line, each of which is
// compared with all names. mostListed is the maximum number of names in the lists of its options.
// Longer command lines would delay all other users.
const (
	mostExpressions = 256
	mostListed      = 1 << 14
)

// brief reports whether a command line stays within these limits, and prints an error if not.
func (x *call) brief(l *line) bool {
	listed, expressions := len(l.given), 0
	count := func(text string) {
		for item := range strings.SplitSeq(text, ",") {
			if !expression.Plain(item) || !expression.PlainPattern(item) {
				expressions++
			}
		}
	}
	for _, word := range l.operands {
		count(word)
	}
	for i := range l.given {
		for _, value := range l.given[i].values {
			listed += strings.Count(value, ",")
			count(value)
		}
	}
	switch {
	case expressions > mostExpressions:
		x.fail(1, "%s: %d expressions for names are too many, at most %d are looked for at once", x.in.Name, expressions, mostExpressions)
	case listed > mostListed:
		x.fail(1, "%s: %d names in the lists of options are too many, at most %d are looked for at once", x.in.Name, listed, mostListed)
	default:
		return true
	}
	return false
}

// hint suggests a similar option. Grid Engine does not.
func (x *call) hint(e *optionError) {
	if e.meant != "" {
		x.warn("did you mean %s?", e.meant)
	}
}

// operands says that a command that takes none was given one.
func (x *call) noOperands(l *line) bool {
	if len(l.operands) > 0 {
		x.usageError(&optionError{word: l.operands[0], meant: meant(x.self.all(), "-"+l.operands[0])})
		return false
	}
	return true
}
