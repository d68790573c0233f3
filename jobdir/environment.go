package jobdir

import (
	"strings"

	"github.com/execd-project/execd/job"
)

// FormatEnvironment formats variables (NAME=value) for the file "environment", one per line. It
// writes a backslash in a value as two backslashes, and a newline as backslash and n.
func FormatEnvironment(vars []string) ([]byte, error) {
	size := 0
	for _, v := range vars {
		size += len(v) + 1
	}
	b := make([]byte, 0, size)
	for _, v := range vars {
		name, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || name == "":
			return nil, &ValueError{FileEnvironment, quote(v), "it is not of the form NAME=value"}
		case strings.ContainsAny(name, "\n\x00") || strings.IndexByte(value, 0) >= 0:
			return nil, &ValueError{FileEnvironment, quote(name), "a newline in the name or a NUL byte"}
		}
		b = append(append(b, name...), '=')
		b = append(append(b, escape(value)...), '\n')
	}
	return b, nil
}

// ParseEnvironment reads a file "environment" that a daemon has written. It keeps the order and repeated
// variables. Unlike the original's shepherd it does not limit the length of a line.
func ParseEnvironment(file string, data []byte, by job.Daemon) ([]string, error) {
	var vars []string
	err := eachLine(file, data, func(line int, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return &SyntaxError{file, line, shorten(name), "expected a line of the form NAME=value"}
		}
		if strings.IndexByte(value, '\\') >= 0 {
			text = name + "=" + unescapeOf(by, value)
		}
		vars = append(vars, text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return vars, nil
}

// ParseEditedEnvironment reads a file "environment" of a daemon that procedures of the site may have edited.
// Like the original's shepherd it skips a line without a name and a value, and the last line needs
// no newline. It returns the numbers of the skipped lines, except empty ones.
func ParseEditedEnvironment(data []byte, by job.Daemon) (vars []string, skipped []int) {
	line := 0
	for text := range strings.SplitSeq(string(data), "\n") {
		line++
		name, value, ok := strings.Cut(text, "=")
		switch {
		case text == "":
		case !ok, name == "", strings.IndexByte(text, 0) >= 0:
			skipped = append(skipped, line)
		default:
			vars = append(vars, name+"="+unescapeOf(by, value))
		}
	}
	return vars, skipped
}

func escape(s string) string {
	if !strings.ContainsAny(s, "\\\n") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "\n", `\n`)
}

// unescape reverses escape exactly. Any other backslash stays, as in the original's reader.
func unescape(s string) string { return unescapeOf(job.DaemonGridEngine, s) }

// unescapeOf reverses what a daemon does to a value. That of Open Cluster Scheduler writes a newline as
// backslash and n, and a backslash as it is, so that such two characters of a job become a newline.
func unescapeOf(by job.Daemon, s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			switch next := s[i+1]; {
			case next == 'n':
				c, i = '\n', i+1
			case next == c && by == job.DaemonGridEngine:
				i++
			}
		}
		b = append(b, c)
	}
	return string(b)
}
