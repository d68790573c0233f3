package jobdir

import (
	"strings"
)

// FormatEnvironment prints variables (NAME=value) as the file environment: one
// on a line, with a backslash in a value written as two and a newline as
// backslash and n.
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

// ParseEnvironment reads a file environment, in its order and with repetitions.
// Unlike the original's shepherd it has no limit on the length of a line.
func ParseEnvironment(file string, data []byte) ([]string, error) {
	var vars []string
	err := eachLine(file, data, func(line int, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return &SyntaxError{file, line, shorten(name), "expected a line of the form NAME=value"}
		}
		if strings.IndexByte(value, '\\') >= 0 {
			text = name + "=" + unescape(value)
		}
		vars = append(vars, text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return vars, nil
}

// ParseEditedEnvironment reads a file environment that procedures of the site may have edited,
// as the original's shepherd does: a line without a name and a value is skipped, and the last
// line need not end. It returns the numbers of the lines that were skipped; empty ones are
// not among them.
func ParseEditedEnvironment(data []byte) (vars []string, skipped []int) {
	line := 0
	for text := range strings.SplitSeq(string(data), "\n") {
		line++
		name, value, ok := strings.Cut(text, "=")
		switch {
		case text == "":
		case !ok, name == "", strings.IndexByte(text, 0) >= 0:
			skipped = append(skipped, line)
		default:
			vars = append(vars, name+"="+unescape(value))
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

// unescape undoes exactly what escape does; any other backslash stays, as in
// the original's reader.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\\':
				b, i = append(b, '\\'), i+1
				continue
			case 'n':
				b, i = append(b, '\n'), i+1
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
