// Package top is the command execd top: the jobs and resources of the daemon, shown and controlled in
// a terminal.
//
// The command has four parts. A collector asks the daemon. A view holds what the user has chosen, such
// as the order of the jobs, and makes lines of text from it and from the last answer. A printer prints
// these lines where there is no terminal. A screen shows them, and reads keys.
//
// Other projects should not import this package: it may change at any time.
package top

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
)

// Usage is the output of --help.
const Usage = `Usage: execd top [options]

Shows jobs, slots, memory and GPUs, and keeps the display current. Keys sort and filter the jobs, and
delete, hold or suspend the selected job; ? lists the keys. If standard input or output is not a
terminal, or the terminal cannot move its cursor (TERM=dumb), the command prints the jobs once.

  --user USER         show only the jobs of this user (short: -u)
  --sort COLUMN       sort by job, name, user, state, time, slots, gpus, cpu or memory
                      (default: as qstat does)
  --filter TEXT       show only jobs with this text in name, user, state, queue or reason
  --interval SECONDS  time between two updates, 0.5 to 3600 (default: 2; short: -d)
  --batch             print the jobs once, even on a terminal (short: -b)
  --count N           print the jobs N times, implies --batch (short: -n)
  --help              print this text

Exit status: 0; 1 if no daemon answers; 2 for wrong usage; 130 if a signal ended the command.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood        = 0
	ExitFailed      = 1
	ExitInterrupted = 130
)

// Command is one call of execd top.
type Command struct {
	Args          []string // words after "execd top"
	Stdin, Stdout *os.File
	Stderr        io.Writer
	Terminal      bool   // standard input and output are terminals
	Width         int    // of standard output in columns; 0 if it is not a terminal
	Term          string // the variable TERM
	NoColor       bool   // the variable NO_COLOR is not empty
}

// request holds the options of the command line.
type request struct {
	user     string // empty for all users
	sort     column
	filter   string
	interval time.Duration
	batch    bool
	count    int
}

// Limits of --interval in seconds, and its default.
const (
	shortest, longest = 0.5, 3600
	usual             = 2 * time.Second
)

// Run runs the command and returns the exit status. A returned error has not been printed yet.
func (c *Command) Run(ctx context.Context) (int, error) {
	q, err := c.parse()
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	me, err := userdb.System().UserID(uint32(os.Getuid()))
	if err != nil {
		return ExitFailed, fmt.Errorf("cannot determine your user name: %w", err)
	}
	session, err := qclient.Dial(ctx, "execd top", c.Stderr)
	if err != nil {
		return ExitFailed, err
	}
	defer session.Close()
	v := &view{sort: q.sort, filter: q.filter, user: me.Name, mine: q.user != "", interval: q.interval}
	if q.user != "" {
		v.user = q.user
	}
	if v.width = c.Width; v.width <= 0 {
		v.width = math.MaxInt32
	}
	if q.batch || !c.Terminal || c.Term == "" || c.Term == "dumb" {
		return c.print(ctx, session, q, v)
	}
	s, err := newScreen(ctx, c, session, v)
	if err != nil {
		return ExitFailed, fmt.Errorf("cannot use the terminal: %w; try execd top --batch", err)
	}
	return s.run(ctx)
}

// short maps the options of top(1) to ours.
var short = map[string]string{"-b": "--batch", "-n": "--count", "-d": "--interval", "-u": "--user"}

func (c *Command) parse() (request, error) {
	q := request{interval: usual, count: 1}
	var args []string
	for _, word := range c.Args {
		if long := short[word]; long != "" {
			word = long
		}
		args = append(args, word)
	}
	var order, interval, count string
	line, err := options.Parse(Usage, args, options.Values{
		"user": &q.user, "sort": &order, "filter": &q.filter, "interval": &interval, "batch": &q.batch, "count": &count,
	})
	if err != nil {
		return q, err
	}
	if len(line.Operands) > 0 {
		return q, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	if i := slices.Index(Columns, order); i >= 0 {
		q.sort = column(i) + 1
	} else if order != "" {
		return q, options.Usagef("invalid value %q of --sort: expected %s", order, strings.Join(Columns, ", "))
	}
	if interval != "" {
		seconds, err := strconv.ParseFloat(interval, 64)
		if err != nil || !(seconds >= shortest && seconds <= longest) {
			return q, options.Usagef("invalid interval %q: expected %v to %v seconds", interval, shortest, longest)
		}
		q.interval = time.Duration(seconds * float64(time.Second))
	}
	if count != "" {
		if q.count, err = strconv.Atoi(count); err != nil || q.count < 1 {
			return q, options.Usagef("invalid count %q: expected a number from 1", count)
		}
		q.batch = true
	}
	return q, nil
}

// print prints the jobs, as often as the command line says.
func (c *Command) print(ctx context.Context, session *qclient.Session, q request, v *view) (int, error) {
	from := &collector{ask: viewOf(session), now: time.Now}
	from.choose(v.asked())
	for n := range q.count {
		if n > 0 {
			if _, err := io.WriteString(c.Stdout, "\n"); err != nil {
				return ExitFailed, err
			}
			select {
			case <-ctx.Done():
				return ExitInterrupted, nil
			case <-time.After(q.interval):
			}
		}
		s, err := from.collect(ctx)
		switch {
		case ctx.Err() != nil:
			return ExitInterrupted, nil //nolint:nilerr // the user knows why
		case err != nil:
			return ExitFailed, err
		}
		v.shown = s
		if _, err := io.WriteString(c.Stdout, text(v.list())); err != nil {
			return ExitFailed, err
		}
	}
	return ExitGood, nil
}
