package command

import (
	"errors"
	"strings"

	"github.com/execd-project/execd/scheduler/expression"
)

// usageError says what is wrong with the options of a command line, in the command's way,
// and which option was probably meant.
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

// usable reports whether a command line that was taken apart is to be followed. If it is not,
// what is wrong with it is said, or the help that it asks for.
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

// mostExpressions is how many expressions for names a command line may have, each of which is
// compared with all names, and mostListed how many names the lists of its options may: for
// longer ones everybody else would wait.
const (
	mostExpressions = 256
	mostListed      = 1 << 14
)

// brief reports whether a command line asks for no more than that, and says so if not.
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

// hint names the option that was probably meant, which is ours.
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
