// Package config implements the command execd config, with which administrators check a
// configuration directory before a daemon reads it. It reports errors in the files, and changes no
// file. Package qconf decides what is valid.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/calendar"
)

// The exit statuses of the command.
const (
	ExitValid      = 0
	ExitInvalid    = 1
	ExitUnreadable = 2 // a directory that cannot be read; also options.ExitUsage
)

// Usage is the output of --help.
const Usage = `Usage: execd config check [--partial] DIR

Checks the configuration in DIR (files as qconf -s... prints them) and prints one line
per error: file, line, attribute, and what was expected. Files that another user can
change are errors, too, because a daemon does not read them.

  --partial  accept names of objects for which DIR has no directory at all, as
             on a host that only runs jobs
  --help     print this text

Exit status: 0 if the configuration is valid, 1 if not, 2 if it could not be
checked.
`

// Command is one call of execd config.
type Command struct {
	Args           []string // words after "execd config"
	Stdout, Stderr io.Writer
}

// Run carries the command out and returns the exit status. The error, if there
// is one, has not been shown yet; what is wrong with a configuration has.
func (c *Command) Run() (int, error) {
	partial := false
	line, err := options.Parse(Usage, c.Args, options.Values{"partial": &partial})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	words := line.Operands
	switch {
	case len(words) == 0 || words[0] != "check":
		return options.ExitUsage, options.Usagef("expected the command check")
	case len(words) != 2:
		return options.ExitUsage, options.Usagef("check takes one directory, not %d", len(words)-1)
	}
	return c.check(words[1], partial)
}

// check prints the errors in a directory on standard output, because they are the result of the
// command.
func (c *Command) check(dir string, partial bool) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		// err contains the path already.
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return ExitUnreadable, fmt.Errorf("cannot read the directory %q: %w", dir, err)
	}
	all := qconf.Check(os.DirFS(dir), qconf.Options{
		Base: qconf.Builtin(runtime.NumCPU()),
		Year: func(text string) error { _, err := calendar.Parse(text, ""); return err },
		Week: func(text string) error { _, err := calendar.Parse("", text); return err },
	})
	if n := unknownEntries(all.Errors); n > 0 && n == visible(entries) {
		printer.Fprintf(c.Stderr, "%s: holds no configuration: %s, and no folder like queues or conf, see execd-conf(5)\n", dir, count(n, "unknown file"))
		return ExitInvalid, nil
	}
	untrusted := configdir.Untrusted(dir)
	for _, e := range untrusted {
		if _, err := printer.Fprintf(c.Stdout, "%s: is not trusted: %s\n", e.At, e.Reason()); err != nil {
			return ExitUnreadable, fmt.Errorf("cannot write to standard output: %w", err)
		}
	}
	programs := configdir.UntrustedPrograms(all.Sound)
	for _, p := range programs {
		if _, err := printer.Fprintf(c.Stdout, "%s/%v\n", strings.TrimSuffix(dir, "/"), p); err != nil {
			return ExitUnreadable, fmt.Errorf("cannot write to standard output: %w", err)
		}
	}
	found, warnings := all.Errors, all.Warnings
	if !partial {
		found = append(found, all.Missing...)
	}
	qconf.SortErrors(found)
	for _, e := range found {
		if err := c.print(dir, "", e); err != nil {
			return ExitUnreadable, err
		}
	}
	for _, e := range warnings {
		if err := c.print(dir, "warning: ", e); err != nil {
			return ExitUnreadable, err
		}
	}
	errs := len(untrusted) + len(programs) + len(found)
	if errs == 0 && visible(entries) == 0 {
		printer.Fprintf(c.Stderr, "%s: holds no configuration, so that the built-in one counts: expected folders like queues and conf, see execd-conf(5)\n", dir)
	}
	if errs+len(warnings) > 0 {
		printer.Fprintf(c.Stderr, "%s: %s, %s\n", dir, count(errs, "error"), count(len(warnings), "warning"))
	}
	if errs > 0 {
		return ExitInvalid, nil
	}
	return ExitValid, nil
}

// visible returns the number of entries of a directory that are not hidden.
func visible(entries []fs.DirEntry) (n int) {
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}

// unknownEntries returns how many of the errors are about an entry that no configuration directory
// has.
func unknownEntries(list []*qconf.Error) (n int) {
	for _, e := range list {
		if strings.HasPrefix(e.Problem, "unknown entry") {
			n++
		}
	}
	return n
}

// print prints one line, with the name of the file as seen from here.
func (c *Command) print(dir, severity string, e *qconf.Error) error {
	there := *e.Within(dir)
	if there.Attribute != "" {
		there.Attribute = severity + there.Attribute
	} else {
		there.Problem = severity + there.Problem
	}
	if _, err := printer.Fprintf(c.Stdout, "%s\n", there.Error()); err != nil {
		return fmt.Errorf("cannot write to standard output: %w", err)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
