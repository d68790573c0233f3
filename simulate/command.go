// Package simulate is the command execd simulate: what a cluster would do with jobs,
// without one. It replays recorded cases (package simulate/replay) and runs jobs on a
// configuration with a clock of its own. What is decided is package scheduler's.
package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/execd-project/execd/simulate/replay"
	"github.com/execd-project/execd/simulate/script"
)

// The exit statuses of the command.
const (
	ExitDone    = 0
	ExitInvalid = 1 // the configuration, the jobs or the case cannot be used
	ExitUsage   = 2
)

// Usage is what --help prints.
const Usage = `Usage: execd simulate --case DIR --out DIR

Replays the recorded case in DIR (its configuration in input, its script in
jobs.txt) and writes what qstat and the other commands would print at each
capture of the script to files in the other DIR: STEP/qstat.txt and so on, and
the answers of all commands to answers.txt.

  --help     print this text

Exit status: 0 if it was done, 1 if what was given cannot be used, 2 if the
command was wrong or files could not be read or written.
`

// UsageError is a command that was said wrongly.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

// Command is one call of execd simulate.
type Command struct {
	Args           []string // words after "execd simulate"
	Stdout, Stderr io.Writer
}

// options are what the command line says.
type options struct {
	caseDir, out string
	help         bool
}

// Run carries the command out and returns the exit status. The error, if there is one,
// has not been shown yet; it may have several lines.
func (c *Command) Run() (int, error) {
	o, err := parse(c.Args)
	if err != nil {
		return ExitUsage, err
	}
	if o.help {
		_, err := io.WriteString(c.Stdout, Usage)
		return ExitDone, err
	}
	return c.replay(o)
}

func parse(args []string) (*options, error) {
	o := &options{}
	values := map[string]*string{"case": &o.caseDir, "out": &o.out}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		name, isOption := strings.CutPrefix(word, "-")
		name = strings.TrimPrefix(name, "-")
		name, value, hasValue := strings.Cut(name, "=")
		switch to := values[name]; {
		case !isOption:
			return nil, &UsageError{fmt.Sprintf("expected an option, not %q", word)}
		case name == "help" || name == "h":
			return &options{help: true}, nil
		case to == nil:
			return nil, &UsageError{fmt.Sprintf("unknown option %q", word)}
		case !hasValue && len(args) == 0:
			return nil, &UsageError{fmt.Sprintf("%s needs a value", word)}
		default:
			if !hasValue {
				value, args = args[0], args[1:]
			}
			if *to != "" {
				return nil, &UsageError{fmt.Sprintf("--%s is given twice", name)}
			}
			if value == "" {
				return nil, &UsageError{fmt.Sprintf("--%s has an empty value", name)}
			}
			*to = value
		}
	}
	switch {
	case o.caseDir == "":
		return nil, &UsageError{"expected --case DIR"}
	case o.out == "":
		return nil, &UsageError{"--case needs --out DIR"}
	}
	return o, nil
}

// replay plays a recorded case.
func (c *Command) replay(o *options) (int, error) {
	if _, err := os.ReadDir(o.caseDir); err != nil {
		return ExitUsage, fmt.Errorf("cannot read the case: %w", err)
	}
	files := map[string][]byte{}
	var names []string
	result, err := replay.Run(os.DirFS(o.caseDir), replay.Options{Write: func(name string, text []byte) error {
		if files[name] == nil {
			names = append(names, name)
		}
		files[name] = text
		return nil
	}})
	if err != nil {
		return ExitInvalid, below(o.caseDir, err)
	}
	files["answers.txt"] = []byte(script.Format(result.Answers))
	for _, name := range append(names, "answers.txt") {
		path := filepath.Join(o.out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return ExitUsage, fmt.Errorf("cannot write: %w", err)
		}
		if err := os.WriteFile(path, files[name], 0o666); err != nil {
			return ExitUsage, fmt.Errorf("cannot write: %w", err)
		}
	}
	for _, d := range result.Differences {
		fmt.Fprintln(c.Stderr, "execd simulate:", d)
	}
	return ExitDone, nil
}

// below names files as seen from here: errors name those of the case from there.
func below(dir string, err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "jobs.txt:") || strings.HasPrefix(line, "input/") {
			line = filepath.Join(dir, line)
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}
