package jobdir

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// FormatConfig formats a description as the config file of its job directory. The file lacks the
// environment and the exact arguments: see FormatEnvironment and FormatArguments. FormatConfig
// refuses a value that ParseConfig would not read back unchanged, with a *ValueError.
func FormatConfig(d *job.Description) ([]byte, error) {
	b := make([]byte, 0, usualConfig)
	if d.Interactive != nil && !namedQsh(d) && !namedRemote(d) {
		return nil, &ValueError{FileConfig, "script_file", quote(d.Command.File) + " is not a kind of interactive job"}
	}
	for i := range configKeys {
		k := &configKeys[i]
		switch {
		case k.arguments:
			for i, a := range d.Command.Args {
				b = appendLine(b, argumentKey(i), displayArgument(a))
			}
			continue
		case !k.belongs(d):
			continue
		}
		v, problem := k.read(d)
		if k.unless != nil && k.unless(d, v) {
			continue
		}
		if problem == "" && (strings.IndexByte(v, '\n') >= 0 || strings.IndexByte(v, 0) >= 0) {
			problem = quote(v) + " contains a newline or a NUL byte"
		}
		if problem != "" {
			return nil, &ValueError{FileConfig, k.name, problem}
		}
		b = appendLine(b, k.name, v)
	}
	return b, nil
}

// usualConfig is a size in bytes that the config of most jobs does not exceed.
const usualConfig = 2560

func appendLine(b []byte, key, value string) []byte {
	b = append(append(b, key...), '=')
	return append(append(b, value...), '\n')
}

func argumentKey(i int) string { return "job_arg" + strconv.Itoa(i+1) }

// ParseConfig reads a config file strictly: every key must be in its place, none may be repeated
// and none may be unknown. Any other content is a *SyntaxError that names file. The arguments of
// the result come from the config. If the directory has a file "arguments", call ParseArguments:
// the config then shows the arguments for people only.
func ParseConfig(file string, data []byte) (*job.Description, error) {
	r := configReader{file: file, d: &job.Description{Limits: job.Unlimited()}}
	err := eachLine(file, data, func(line int, text string) error {
		r.line = line
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return r.fail(text, "expected a line of the form key=value")
		}
		return r.take(key, value)
	})
	if err != nil {
		return nil, err
	}
	r.line++
	if err := r.missing(len(configKeys), ""); err != nil {
		return nil, err
	}
	return r.d, nil
}

// configReader is the state of reading a config file.
type configReader struct {
	file string
	line int
	next int // index in configKeys; the keys before it were read or skipped
	args int // number of arguments that are still missing
	d    *job.Description
}

func (r *configReader) fail(key, problem string) error {
	return &SyntaxError{File: r.file, Line: r.line, Key: shorten(key), Problem: problem}
}

// shorten limits the length of an unknown key in an error message.
func shorten(key string) string {
	if len(key) <= 40 && strings.IndexFunc(key, func(c rune) bool { return c < ' ' || c == 0x7f }) < 0 {
		return key
	}
	return strconv.Quote(key[:min(len(key), 40)])
}

// take reads one line.
func (r *configReader) take(key, value string) error {
	if r.args > 0 {
		want := argumentKey(len(r.d.Command.Args))
		if key != want {
			return r.fail(key, "expected "+want+" (is there a newline in an argument?)")
		}
		r.d.Command.Args = append(r.d.Command.Args, value)
		r.args--
		return nil
	}
	i := r.next
	for i < len(configKeys) && !configKeys[i].named(key) {
		i++
	}
	if i == len(configKeys) {
		return r.fail(key, r.misplaced(key))
	}
	if err := r.missing(i, key); err != nil {
		return err
	}
	k := &configKeys[i]
	if !k.belongs(r.d) {
		return r.fail(key, "does not belong to a job of this kind")
	}
	if problem := k.write(r.d, value); problem != "" {
		return r.fail(key, problem)
	}
	if key == "njob_args" {
		r.args, _ = strconv.Atoi(value)
	}
	r.next = i + 1
	return nil
}

// missing returns the error for the first required key from next to index i, exclusive.
func (r *configReader) missing(i int, got string) error {
	if r.args > 0 {
		return r.fail(argumentKey(len(r.d.Command.Args)), "missing")
	}
	for at := r.next; at < i; at++ {
		k := &configKeys[at]
		if k.unless != nil || k.arguments || !k.belongs(r.d) {
			continue
		}
		if got == "" {
			return r.fail(k.name, "missing")
		}
		return r.fail(got, "expected "+k.name)
	}
	return nil
}

// misplaced returns the error text for a key that is not allowed at this place.
func (r *configReader) misplaced(key string) string {
	for i := range configKeys[:r.next] {
		if configKeys[i].named(key) {
			return "comes too late or twice"
		}
	}
	if strings.HasPrefix(key, "job_arg") {
		return "more arguments than njob_args, or in the wrong place"
	}
	return "unknown key"
}

// eachLine calls f with each line of a file. Every line must end with a newline and contain no NUL
// byte.
func eachLine(file string, data []byte, f func(line int, text string) error) error {
	rest := string(data)
	for line := 1; rest != ""; line++ {
		text, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return &SyntaxError{File: file, Line: line, Problem: "the file ends within a line"}
		}
		if strings.IndexByte(text, 0) >= 0 {
			key, _, _ := strings.Cut(text, "=")
			return &SyntaxError{File: file, Line: line, Key: shorten(key), Problem: "contains a NUL byte"}
		}
		if err := f(line, text); err != nil {
			return err
		}
		rest = after
	}
	return nil
}
