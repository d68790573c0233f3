package sensor

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/qconf"
)

// The exit statuses of the command.
const (
	ExitGood       = 0   // no errors; there may be warnings
	ExitErrors     = 1   // the sensor has errors
	ExitUnreadable = 2   // the configuration cannot be read; also options.ExitUsage
	ExitCannotRun  = 125 // the sensor could not be started
)

// Usage is the output of --help.
const Usage = `Usage: execd sensor check [options] SCRIPT

Runs a load sensor as the agent does, through a start, three cycles, a change and a
quit. Prints the values that it understood, and every fault with its line. For the
change it sets the modification time of SCRIPT to now.

  --conf DIR      compare the values with the complexes and hosts of a configuration
  --user NAME     run it as this user; required for root
  --host NAME     name of this host (default: what hostname prints)
  --timeout TIME  time limit of a report, such as 10s (default: 30s)
  --json          write the result as JSON
  --help          print this text

Exit status: 0 without errors (there may be warnings), 1 with errors, 2 for wrong
usage, 125 if the sensor could not be started.
`

// Command is one call of execd sensor.
type Command struct {
	Args   []string // words after "execd sensor"
	Stdout io.Writer
	// Progress is a terminal on which the check prints what it waits for; nil for none.
	Progress io.Writer
}

// Run runs the command and returns the exit status. A returned error has not been printed yet;
// errors of the sensor have.
func (c *Command) Run() (int, error) {
	var asJSON bool
	var conf, user, host, timeoutText string
	line, err := options.Parse(Usage, c.Args, options.Values{"json": &asJSON, "conf": &conf, "user": &user, "host": &host, "timeout": &timeoutText})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if len(line.Operands) == 0 || line.Operands[0] != "check" {
		return options.ExitUsage, options.Usagef("expected the command check")
	}
	words := line.Operands[1:]
	timeout := external.DefaultTimeout
	if timeoutText != "" {
		if timeout, err = time.ParseDuration(timeoutText); err != nil {
			return options.ExitUsage, options.Usagef("--timeout %q, expected a time such as 10s", timeoutText)
		}
	}
	switch {
	case len(words) != 1:
		return options.ExitUsage, options.Usagef("check takes one script, not %d", len(words))
	case timeout <= 0:
		return options.ExitUsage, options.Usagef("--timeout: %v is too short", timeout)
	case os.Geteuid() == 0 && user == "":
		return options.ExitUsage, options.Usagef("root must say as whom the sensor is to run: --user NAME")
	}
	path, err := filepath.Abs(words[0])
	if err != nil {
		return ExitCannotRun, err
	}
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return ExitCannotRun, fmt.Errorf("cannot determine the name of this host: %w", err)
		}
	}
	check := checker{path: path, user: user, host: host, timeout: timeout, progress: c.Progress}
	if conf != "" {
		if _, err := os.ReadDir(conf); err != nil {
			return ExitUnreadable, fmt.Errorf("cannot read the configuration: %w", err)
		}
		// The command runs nothing from the configuration, so the owners of its files do not
		// matter.
		if check.cluster, err = qconf.Load(os.DirFS(conf), qconf.Builtin(runtime.NumCPU())); err != nil {
			return ExitUnreadable, fmt.Errorf("cannot read the configuration in %q: %w", conf, err)
		}
	}
	result := check.run()
	text := []byte(result.Text())
	if asJSON {
		if text, err = printer.JSON(result); err != nil {
			return ExitCannotRun, err
		}
	}
	if _, err := c.Stdout.Write(text); err != nil {
		return ExitCannotRun, fmt.Errorf("cannot write to standard output: %w", err)
	}
	return result.Status, nil
}

// longest is the timeout for everything that the sensor's own timeouts do not limit.
const longest = time.Minute
