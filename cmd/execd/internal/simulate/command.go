// Package simulate implements the command execd simulate, which predicts when and where jobs would
// run. It runs jobs on a configuration with a simulated clock (package simulate/runner), and
// replays recorded cases (package simulate/replay). Package scheduler makes the decisions.
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
	// Terminal says that Stderr is a terminal: long simulations show their progress there.
	Terminal bool
}

// Run carries out the command and returns the exit status. The caller prints the error, if there is
// one; it may have several lines.
func (c *Command) Run() (int, error) {
	o, err := parse(c.Args)
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if o.caseDir != "" {
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
	// Links cannot lead out of the case, because contents of its files are written to other files.
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

// warn prints a text on standard error, line by line.
func (c *Command) warn(text string) {
	for line := range strings.Lines(text) {
		printer.Fprintf(c.Stderr, "execd simulate: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// below prepends dir to the names of files in an error.
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
