// Package simulate is the command execd simulate: what a cluster would do with jobs,
// without one. It runs jobs on a configuration with a clock of its own (package
// simulate/runner), and replays recorded cases (package simulate/replay). What is decided
// is package scheduler's.
package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/outfile"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/simulate/replay"
	"github.com/execd-project/execd/simulate/script"
)

// The exit statuses of the command.
const (
	ExitDone    = 0
	ExitInvalid = 1 // the configuration, the jobs or the case cannot be used
	ExitFiles   = 2 // files could not be read or written; also options.ExitUsage
)

// Command is one call of execd simulate.
type Command struct {
	Args           []string // words after "execd simulate"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that people look at Stderr: long simulations show there how far they
	// have come.
	Terminal bool
}

// Run carries the command out and returns the exit status. The error, if there is one,
// has not been shown yet; it may have several lines.
func (c *Command) Run() (int, error) {
	o, err := parse(c.Args)
	switch {
	case errors.Is(err, options.ErrHelp):
		_, err := io.WriteString(c.Stdout, Usage)
		return ExitDone, err
	case err != nil:
		return options.ExitUsage, err
	case o.caseDir != "":
		return c.replay(o)
	}
	return c.simulate(o)
}

// replay plays a recorded case.
func (c *Command) replay(o *settings) (int, error) {
	if _, err := os.ReadDir(o.caseDir); err != nil {
		return ExitFiles, fmt.Errorf("cannot read the case: %w", err)
	}
	files := map[string][]byte{}
	dir, err := os.OpenRoot(o.caseDir)
	if err != nil {
		return ExitFiles, fmt.Errorf("cannot read the case: %w", err)
	}
	defer dir.Close()
	// What is printed of a file goes into other files: no link leads out of the case.
	result, err := replay.Run(dir.FS(), replay.Options{Write: func(name string, text []byte) error {
		files[name] = text
		return nil
	}})
	if err != nil {
		return ExitInvalid, below(o.caseDir, err)
	}
	files["answers.txt"] = []byte(script.Format(result.Answers))
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if err := writeFiles(o.out, names, files); err != nil {
		return ExitFiles, fmt.Errorf("cannot write: %w", err)
	}
	for _, d := range result.Differences {
		c.warn(d)
	}
	return ExitDone, nil
}

// writeFiles writes files below a directory.
func writeFiles(dir string, names []string, files map[string][]byte) error {
	root, err := outfile.MakeDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		if err := outfile.Write(root, name, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// warn says something on standard error, line by line.
func (c *Command) warn(text string) {
	for line := range strings.Lines(text) {
		printer.Fprintf(c.Stderr, "execd simulate: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// below names files as seen from here: errors name those of a directory from there.
func below(dir string, err error) error {
	var lines []error
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "jobs.txt:") || strings.HasPrefix(line, "input/") {
			line = filepath.Join(dir, line)
		}
		lines = append(lines, errors.New(line))
	}
	return errors.Join(lines...)
}
