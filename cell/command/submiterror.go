package command

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/execd-project/execd/submit"
)

// Exit statuses of commands that package submit reads (tested).
const (
	exitUsage         = 2
	exitStdin         = 4
	exitUnknownOption = 5
	exitValue         = 7
	exitNoScript      = 14
	exitLimit         = 25 // max_jobs and max_u_jobs
	exitRefused       = 1
	needsArgument     = "option must have argument"
)

// submitError prints the error in the options of qsub, qalter or qrsub. The expected value and the
// position in a file follow on separate lines, which Grid Engine does not print.
func (x *call) submitError(err error) {
	e, ok := errors.AsType[*submit.Error](err)
	if !ok {
		x.fail(exitRefused, "%s: %s", x.in.Name, err)
		return
	}
	prefix := x.in.Name + ": "
	if x.isInteractive() {
		prefix = "error: "
	}
	switch isFile := e.Where != submit.CommandLine && e.Kind != submit.NoOptionFile; {
	case isFile && (e.Where == submitRequest || slices.Contains(x.in.requestFiles(submitRequest), e.Where)):
		prefix = ""
		defer x.where(e)
	case isFile:
		prefix = "Unable to read script file because of error: "
		defer x.where(e)
	}
	switch e.Kind {
	case submit.UnknownOption:
		if x.in.Name == "qalter" && e.Value == "-uall" { // (tested)
			x.fail(exitUnknownOption, "Unknown option %s", e.Value)
			x.warn("")
			return
		}
		x.fail(exitUsage, "%sinvalid option argument %q", prefix, e.Value)
		if e.Meant != "" {
			x.warn("did you mean %s?", e.Meant)
		}
	case submit.OtherCommand:
		x.otherCommand(e)
	case submit.MissingValue:
		what, ok := missingValues[e.Option]
		if e.Option == "-pe" {
			if what, ok = "option must have pe_name argument", true; e.Value != "" {
				what = "option must have range as 2nd argument"
			}
		}
		if !ok {
			what = needsArgument
		}
		x.fail(exitUsage, "%s%s %s", prefix, e.Option, what)
	case submit.MissingCommand:
		x.fail(exitUsage, "%scommand required for a binary job", prefix)
	case submit.NoScript, submit.NoOptionFile:
		x.noScript(err)
	case submit.EmptyCommand:
		x.emptyCommand(e)
	case submit.BadJob, submit.NoJobs:
		x.badJobs(e)
	case submit.BadName:
		x.badName(e, path.Base(e.Value))
	default:
		x.valueError(e, prefix)
	}
}

// otherCommand prints an error about an option of another command. -t of qalter follows a job.
func (x *call) otherCommand(e *submit.Error) {
	option, _, _ := strings.Cut(e.Value, " ")
	switch {
	case x.isInteractive():
		x.fail(exitRefused, "error: Unknown option %s", option)
		x.warn("%s", e.Problem)
		return
	case x.in.Name == "qalter" && option == "-t":
		x.fail(exitUsage, "found lonely '%s' option (The -t option needs a leading job name).", e.Value)
		return
	case x.in.Name == "qalter":
		x.fail(exitUnknownOption, "Unknown option %s", e.Value)
	default:
		x.fail(exitUnknownOption, "%s: Unknown option %s", x.in.Name, e.Value)
	}
	x.warn("")
	x.warn("%s", e.Problem)
}

// noScript says that the script, or a file of -@, cannot be read.
func (x *call) noScript(err error) {
	const cannot = "Unable to read script file because of error: "
	u, ok := errors.AsType[*unreadable](err)
	switch {
	case !ok:
		x.fail(exitStdin, cannot+"no input read from stdin")
	case strings.EqualFold(u.reason, "is a directory"):
		x.warn("error: fread(%q) failed: %s", u.name, u.reason)
		x.fail(exitStdin, cannot+"error reading from file %s", u.name)
	default:
		x.fail(exitNoScript, cannot+"error opening %s: %s", u.name, u.reason)
	}
}

// emptyCommand says that there is no command: to the original the empty word is the name of a file or, with
// -b y, of the job.
func (x *call) emptyCommand(e *submit.Error) {
	switch {
	case x.isInteractive():
		x.fail(exitRefused, "error: %s", e.Problem)
	case e.Option == "-b":
		x.refused(errors.New("job rejected cause there is no job_name in the request"))
	default:
		x.fail(exitNoScript, "Unable to read script file because of error: error opening : No such file or directory")
	}
}

// missingValues are the words for options without a value (tested).
var missingValues = map[string]string{
	"-q": "option must have queue list argument", "-masterq": "option must have queue list argument",
	"-v": "option must have variable list argument", "-t": "option must have a list of task id ranges",
	"-S": "option must have path_name argument", "-@": "option must have file argument",
	"-ac": "option must have a context_list list argument", "-sc": "option must have context list argument",
	"-dc": "option must have a simple_context_list list argument",
}

// wrongLists names the lists in the messages about invalid lists (tested).
var wrongLists = map[string]string{
	"-e": "path list", "-i": "path list", "-o": "stdout path list", "-S": "shell list", "-M": "mail list", "-q": "queue list", "-masterq": "queue list",
	"-hold_jid": "jid_hold list", "-hold_jid_ad": "jid_hold_ad list", "-l": "resource list", "-m": "mail options list",
}

// wrongNumbers holds the messages about invalid numbers (tested).
var wrongNumbers = map[string]string{
	"-js": "invalid jobshare, must be an unsigned integer", "-ar": "invalid advance reservation id, must be an unsigned integer",
	"-ot": "invalid override tickets, must be an unsigned integer",
}

// wrongDates are the texts for dates, by the part that is wrong (tested).
var wrongDates = map[string]string{
	"month": "Invalid month specification.", "day": "Invalid day specification.", "hour": "Invalid hour specification.",
	"minute": "Invalid minute specification.", "second": "Invalid seconds specification.",
	"year": "Couldn't generate date from input. Perhaps a date before 1970 was specified.",
}

// valueError prints the error about an invalid value of an option.
func (x *call) valueError(e *submit.Error, prefix string) {
	what, isList := wrongLists[e.Option]
	number, isNumber := wrongNumbers[e.Option]
	switch option := e.Option; {
	case option == "" && e.Value == "":
		x.fail(exitUsage, "%s%s", prefix, e.Problem)
		return
	case option == "":
		x.fail(exitUsage, "%s%q: %s", prefix, e.Value, e.Problem)
		return
	case option == "-p":
		x.fail(exitValue, "%sinvalid priority %q.  Must be an integer from -1023 to 1024", prefix, e.Value)
		return
	case option == "-tc":
		x.fail(exitValue, "%sinvalid task concurrency number %q. Must be an integer greater or equal to 0.", prefix, e.Value)
		return
	case isNumber:
		x.fail(exitUsage, "%s%s", prefix, number)
		return
	case option == "-a" || option == "-dl" || option == "-e" && x.in.Name == "qrsub":
		x.wrongDate(e, prefix)
	case option == "-binding":
		x.fail(exitUsage, "%s-binding option contains errors: %s", prefix, e.Problem)
		return
	case option == "-d":
		x.fail(exitRefused, "%sWrong time format %q specified to -d option", prefix, e.Value)
	case option == "-N" && strings.Contains(e.Value, "/"):
		x.fail(exitUsage, "%sargument to -N option must not contain / ", prefix)
		return
	case option == "-N" || option == "-A" || option == "-P" || option == "-ckpt":
		x.badName(e, e.Value)
		return
	case option == "-c" && e.Value == "":
		x.fail(exitUsage, "%s-c argument invalid", prefix)
	case option == "-c":
		x.fail(exitUsage, "%s-c specifier invalid", prefix)
	case option == "-h":
		x.fail(exitValue, "%sUnknown hold list %q specified to -h option", prefix, e.Value)
	case option == "-t" || option == "-pe":
		x.wrongRange(e, prefix)
		return
	case option == "-ac" || option == "-dc" || option == "-sc":
		x.fail(exitValue, "%sWrong context list format %s %q", prefix, option, e.Value)
	case option == "-v":
		x.fail(exitValue, "%sWrong variable list format -v %q or environment variable not set", prefix, e.Value)
	case strings.HasSuffix(e.Problem, " has no path"): // an entry like "host:" (tested)
		x.refused(errors.New("paths may not be empty strings"))
		return
	case isList && strings.HasSuffix(e.Problem, " has no resource name"):
		x.warn("error: unknown resource \"\"")
		x.fail(exitValue, "%sWrong %s format %q specified to %s option", prefix, what, e.Value, option)
	case isList:
		x.fail(exitValue, "%sWrong %s format %q specified to %s option", prefix, what, e.Value, option)
	default:
		x.fail(exitValue, "%sinvalid option argument %q", prefix, option+" "+e.Value)
	}
	x.warn("%s", e.Problem)
}

func (x *call) wrongDate(e *submit.Error, prefix string) {
	part, _, _ := strings.Cut(strings.TrimPrefix(e.Problem, "the "), " ")
	text, ok := wrongDates[part]
	switch {
	case e.Value == "":
		text = "no date specified"
	case !ok:
		text = "Invalid format of date/hour-minute field."
	}
	x.warn("")
	x.warn("%s", text)
	x.fail(exitValue, "%sWrong date/time format %q specified to %s option", prefix, e.Value, e.Option)
}

// wrongRange prints the error about a range of tasks or slots. For some errors it is the master's
// message.
func (x *call) wrongRange(e *submit.Error, prefix string) {
	switch {
	case strings.HasPrefix(e.Problem, "The initial portion"):
		x.warn("%sNumerical value invalid!", prefix)
		x.fail(exitValue, "%s", e.Problem)
	case strings.HasPrefix(e.Problem, "Negative or zero step"), strings.HasPrefix(e.Problem, "Range specifier"):
		x.fail(exitValue, "%s%s", prefix, e.Problem)
	case e.Option == "-t":
		x.refused(errors.New(e.Problem))
	default:
		x.fail(exitValue, "%sinvalid option argument %q", prefix, e.Option+" "+e.Value)
		x.warn("%s", e.Problem)
	}
}

// forbidden are the words for characters that are not allowed in names (tested).
var forbidden = map[rune]string{
	'/': "Slash", ':': "Colon", '@': "At", '*': "Asterisk", '\\': "Backslash", ' ': "Space", '?': "Questionmark", '[': "Brackets", ']': "Brackets",
	'{': "Braces", '}': "Braces", '|': "Pipe", '(': "Parenthesis", ')': "Parenthesis", '%': "Percent", ',': "Comma", '"': "Double quote", '\'': "Quote",
}

// badName prints the master's error about an invalid name.
func (x *call) badName(e *submit.Error, name string) {
	text := "denied: \"" + name + "\" is not a valid object name: " + e.Problem
	switch upper := strings.ToUpper(name); {
	case upper == "NONE" || upper == "ALL" || upper == "TEMPLATE":
		text = "Keyword (\"" + upper + "\") not allowed as objectname"
	case e.Option != "-A" && name != "" && name[0] >= '0' && name[0] <= '9':
		text = "denied: \"" + name + "\" is not a valid object name (cannot start with a digit)"
	case name == "" && e.Option == "-N" && x.in.Name != "qalter":
		text = "job rejected cause there is no job_name in the request"
	case name == "" && e.Option == "-A":
		text = `NULL pointer passed as object name for "account string"`
	default:
		for _, r := range name {
			if r == '\t' {
				text = "Tab not allowed in objectname"
				break
			}
			if word, ok := forbidden[r]; ok {
				text = word + " ('" + string(r) + "') not allowed in objectname"
				break
			}
		}
	}
	switch {
	case x.in.Name == "qalter" || x.in.Name == "qrsub":
		x.say("%s", text)
		x.result.Exit = exitRefused
	case x.isInteractive():
		x.fail(exitRefused, "%s", text)
	default:
		x.refused(errors.New(text))
	}
}

// where adds the file and, if it is known, the line that is wrong.
func (x *call) where(e *submit.Error) {
	if e.Line < 1 {
		x.warn("%s", e.Where)
		return
	}
	x.warn("%s, line %d", e.Where, e.Line)
}
