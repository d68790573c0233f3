package importer

import (
	"errors"
	"fmt"
	"io"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
)

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitLeft   = 1 // written, but some objects or attributes could not be imported
	ExitFailed = 3 // nothing was written
)

// Usage is the output of --help.
const Usage = `Usage: execd import --conf DIR --from PATH... [options]
       execd import --conf DIR --live [options]

Imports the configuration of a Grid Engine cell into the configuration directory DIR.
Everything that was skipped is listed with file, line and reason.

  --conf DIR       directory to write; on failure nothing is written
  --from PATH      source; may be repeated:
                     a directory with files as qconf -s... prints them
                     a directory that save_sge_config.sh wrote
                     $SGE_ROOT/$SGE_CELL of a cell with classic spooling, or the
                     spool directory of its master and the directory common
                     a file with the output of qconf -s...
  --live           read from the running cell, with qconf
  --qconf PROGRAM  path of this qconf (default: the one in PATH)
  --partial        accept names of objects whose kind was not read at all
  --force          replace DIR; the previous one becomes DIR.old
  --dry-run        write nothing, only report
  --help           print this text

Exit status: 0 if everything was imported, 1 if something was skipped, 2 for wrong usage,
3 if nothing was written.
`

// Command is one call of execd import.
type Command struct {
	Args           []string // words after "execd import"
	Stdout, Stderr io.Writer
}

type settings struct {
	conf, qconf                  string
	from                         []string
	live, partial, force, dryRun bool
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	line, err := options.Parse(Usage, args, options.Values{
		"conf": &s.conf, "qconf": &s.qconf, "from": &s.from, "live": &s.live, "partial": &s.partial, "force": &s.force, "dry-run": &s.dryRun,
	})
	if err != nil {
		return nil, err
	}
	switch {
	case len(line.Operands) > 0:
		return nil, options.Usagef("unexpected argument %q", line.Operands[0])
	case s.conf == "" && !s.dryRun:
		return nil, options.Usagef("--conf is missing: the directory to write")
	case s.live == (len(s.from) > 0):
		return nil, options.Usagef("expected either --from, with what to read, or --live")
	case s.qconf != "" && !s.live:
		return nil, options.Usagef("--qconf is for --live")
	}
	if s.qconf == "" {
		s.qconf = "qconf"
	}
	return s, nil
}

// Run runs the command and returns the exit status. A returned error has not been printed yet; the
// list of skipped objects and attributes has.
func (c *Command) Run() (int, error) {
	s, err := parse(c.Args)
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	found := newSource()
	if s.live {
		err = found.readLive(&asker{s.qconf})
	}
	for _, path := range s.from {
		err = errors.Join(err, found.readPath(path))
	}
	if err != nil {
		return ExitFailed, err
	}
	r, err := found.take(s.partial)
	if err != nil {
		return ExitFailed, err
	}
	if !s.dryRun {
		err := configdir.Write(s.conf, r.Files, r.Folders, s.force)
		if errors.Is(err, configdir.ErrExists) {
			return ExitFailed, fmt.Errorf("the directory %q exists and is not empty; --force replaces it and saves it as %s.old", s.conf, s.conf)
		}
		if err != nil {
			return ExitFailed, err
		}
	}
	return c.report(r)
}

func (c *Command) report(r *Result) (int, error) {
	for _, line := range r.Left {
		if _, err := printer.Fprintf(c.Stdout, "%s\n", line); err != nil {
			return ExitFailed, fmt.Errorf("cannot write to standard output: %w", err)
		}
	}
	for _, w := range r.Warnings {
		printer.Fprintf(c.Stderr, "warning: %v\n", w)
	}
	printer.Fprintf(c.Stderr, "imported: %s; not imported: %d\n", r.count(), len(r.Left))
	if len(r.Left) > 0 {
		return ExitLeft, nil
	}
	return ExitGood, nil
}
