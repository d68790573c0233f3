package sensor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/qconf"
)

// The exit statuses of the command.
const (
	ExitGood      = 0   // no errors; there may be warnings
	ExitErrors    = 1   // the sensor does something wrong
	ExitUsage     = 2   // wrong usage, or a configuration that cannot be read
	ExitCannotRun = 125 // the sensor could not be started
)

// Usage is what --help prints.
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

// UsageError is a command that was said wrongly.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

// Command is one call of execd sensor.
type Command struct {
	Args   []string // words after "execd sensor"
	Stdout io.Writer
	// Progress is a terminal that is told what the check waits for; nil for none.
	Progress io.Writer
}

// Run carries the command out and returns the exit status. The error, if there is one,
// has not been shown yet; what is wrong with the sensor has.
func (c *Command) Run() (int, error) {
	flags := flag.NewFlagSet("execd sensor check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	conf := flags.String("conf", "", "")
	user := flags.String("user", "", "")
	host := flags.String("host", "", "")
	timeout := flags.Duration("timeout", external.DefaultTimeout, "")
	args := c.Args
	if len(args) > 0 && args[0] == "check" {
		args = args[1:]
	} else if len(args) == 0 || args[0] != "--help" && args[0] != "-help" && args[0] != "-h" {
		return ExitUsage, &UsageError{"expected the command check"}
	}
	var words []string
	for len(args) > 0 { // options may follow the script
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			_, err := io.WriteString(c.Stdout, Usage)
			return ExitGood, err
		}
		if err != nil {
			return ExitUsage, &UsageError{nearest.Option(flags, err)}
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	switch {
	case len(words) != 1:
		return ExitUsage, &UsageError{fmt.Sprintf("check takes one script, not %d", len(words))}
	case *timeout <= 0:
		return ExitUsage, &UsageError{fmt.Sprintf("--timeout: %v is too short", *timeout)}
	case os.Geteuid() == 0 && *user == "":
		return ExitUsage, &UsageError{"root must say as whom the sensor is to run: --user NAME"}
	}
	path, err := filepath.Abs(words[0])
	if err != nil {
		return ExitCannotRun, err
	}
	if *host == "" {
		if *host, err = os.Hostname(); err != nil {
			return ExitCannotRun, fmt.Errorf("cannot tell the name of this host: %w", err)
		}
	}
	check := checker{path: path, user: *user, host: *host, timeout: *timeout, progress: c.Progress}
	if *conf != "" {
		if _, err := os.ReadDir(*conf); err != nil {
			return ExitUsage, fmt.Errorf("cannot read the configuration: %w", err)
		}
		// Nothing in it is run: whose files they are does not matter.
		if check.cluster, err = qconf.Load(os.DirFS(*conf), qconf.Builtin(runtime.NumCPU())); err != nil {
			return ExitUsage, fmt.Errorf("cannot read the configuration in %q: %w", *conf, err)
		}
	}
	result := check.run()
	text := []byte(result.Text())
	if *asJSON {
		if text, err = printer.JSON(result); err != nil {
			return ExitCannotRun, err
		}
	}
	if _, err := c.Stdout.Write(text); err != nil {
		return ExitCannotRun, fmt.Errorf("cannot write to standard output: %w", err)
	}
	return result.Status, nil
}

// longest is how long anything may take that the sensor's own deadlines do not bound.
const longest = time.Minute
