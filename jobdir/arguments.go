package jobdir

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// displayArgument returns an argument as the config file shows it: with its newlines escaped,
// because a newline would end the line.
func displayArgument(a string) string { return strings.ReplaceAll(a, "\n", `\n`) }

// FormatArguments formats the arguments of a job for the file "arguments": each argument is
// followed by a NUL byte, the only byte that no argument contains. The config file also shows the
// arguments, one per line, for people and for the original's shepherd.
func FormatArguments(args []string) ([]byte, error) {
	var b []byte
	for i, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return nil, &ValueError{FileArguments, argumentKey(i), quote(a) + " contains a NUL byte"}
		}
		b = append(append(b, a...), 0)
	}
	return b, nil
}

// ParseArguments reads a file "arguments" and replaces the arguments of d, which ParseConfig has
// read. It refuses a file that does not match the config.
func ParseArguments(file string, data []byte, d *job.Description) error {
	fail := func(i int, problem string) error {
		return &SyntaxError{File: file, Key: argumentKey(i), Problem: problem}
	}
	shown := d.Command.Args
	rest, args := string(data), []string(nil)
	for rest != "" {
		a, after, ok := strings.Cut(rest, "\x00")
		if !ok {
			return fail(len(args), "the file ends within it")
		}
		if len(args) == len(shown) || shown[len(args)] != displayArgument(a) {
			return fail(len(args), "is not what the config file has")
		}
		args, rest = append(args, a), after
	}
	if len(args) != len(shown) {
		return &SyntaxError{File: file, Problem: "contains " + strconv.Itoa(len(args)) +
			" arguments, but the config file has " + strconv.Itoa(len(shown))}
	}
	d.Command.Args = args
	return nil
}
