// Package wait is the command execd wait: it waits until jobs have finished, and exits with their
// status.
//
// Other projects should not import this package: it may change at any time.
package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
)

// Usage is the output of --help.
const Usage = `Usage: execd wait [options] JOB...

Waits until your jobs have finished, and prints how each of them ended. Jobs that have
finished already count, too. On a terminal it shows what a pending job waits for.

  --quiet  print only errors
  --help   print this text

Exit status: that of the first job in the list that did not exit with 0, and of an array job
that of its first such task; 1 if a job was killed, deleted before it ran, or is unknown; 2
for wrong usage; 130 if interrupted, which does not affect the jobs.
`

// The exit statuses of the command, besides options.ExitUsage and those of jobs.
const (
	ExitGood        = 0
	ExitFailed      = 1
	ExitInterrupted = 130
)

// Command is one call of execd wait.
type Command struct {
	Args           []string // words after "execd wait"
	Stdout, Stderr io.Writer
	// AwaitEnd waits until a job has finished; known is false if the daemon does not know it.
	AwaitEnd func(ctx context.Context, job uint32) (known bool, err error)
	// File returns the name of the accounting file, see records.Open.
	File func() string
}

// Run carries the command out and returns the exit status. An error has not been printed yet.
func (c *Command) Run(ctx context.Context) (int, error) {
	var quiet bool
	line, err := options.Parse(Usage, c.Args, options.Values{"quiet": &quiet})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if len(line.Operands) == 0 {
		return options.ExitUsage, options.Usagef("expected the number of a job")
	}
	var jobs []uint32
	for _, word := range line.Operands {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil || n == 0 || n > math.MaxInt32 {
			return options.ExitUsage, options.Usagef("invalid job %q: expected a number such as 17", word)
		}
		jobs = append(jobs, uint32(n))
	}
	status := ExitGood
	for _, job := range jobs {
		known, err := c.AwaitEnd(ctx, job)
		switch {
		case ctx.Err() != nil:
			return ExitInterrupted, nil //nolint:nilerr // the user knows why
		case err != nil:
			return ExitFailed, err
		}
		ends, err := Ends(ctx, c.File(), int(job))
		switch {
		case ctx.Err() != nil:
			return ExitInterrupted, nil //nolint:nilerr // the user knows why
		case err != nil:
			return ExitFailed, err
		}
		text, s := Verdict(ends, known)
		to := c.Stdout
		switch {
		case s != 0:
			to = c.Stderr
		case quiet:
			to = io.Discard
		}
		printer.Fprintf(to, "Job %d %s\n", job, printer.Trusted(text))
		if status == ExitGood {
			status = s
		}
	}
	return status, nil
}

// Ends returns the last record of each task of a job in an accounting file (see records.Open), in the order
// of the tasks. A job that runs again has a record for each run. The error is that of ctx, too.
func Ends(ctx context.Context, name string, job int) ([]*accounting.Record, error) {
	file, err := records.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the daemon has not written a record yet
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the accounting file: %w", err)
	}
	defer file.Close()
	last := map[int]*accounting.Record{}
	err = records.Each(ctx, file, job, func(r *accounting.Record) error {
		if r.PETask == "" {
			last[r.Task] = r
		}
		return nil
	}, func(int, error) {}) // qacct reports invalid lines
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file.Name, err)
	}
	var ends []*accounting.Record
	for _, r := range last {
		ends = append(ends, r)
	}
	slices.SortFunc(ends, func(a, b *accounting.Record) int { return a.Task - b.Task })
	return ends, nil
}

// Verdict describes the end of a job as a phrase and as the exit status of execd wait. known is that of
// Command.AwaitEnd.
func Verdict(ends []*accounting.Record, known bool) (string, int) {
	if len(ends) == 0 {
		if known {
			return "was deleted before it ran", ExitFailed
		}
		return "is unknown: the daemon does not have it, and there is no accounting record", ExitFailed
	}
	bad, status := 0, ExitGood
	var first *accounting.Record
	for _, r := range ends {
		if r.Failed == 0 && r.ExitStatus == 0 {
			continue
		}
		if bad++; first == nil {
			first = r
			if status = r.ExitStatus; status == 0 || r.Signal != 0 || status > 255 {
				status = ExitFailed
			}
		}
	}
	if len(ends) > 1 || ends[0].Task > 0 {
		if bad == 0 {
			return fmt.Sprintf("finished: %d tasks exited with status 0", len(ends)), ExitGood
		}
		return fmt.Sprintf("finished: %d of %d tasks failed, the first is task %d: %s", bad, len(ends), first.Task, phrase(first)), status
	}
	return phrase(ends[0]), status
}

// phrase describes the end of a run.
func phrase(r *accounting.Record) string {
	switch {
	case r.Reason != "":
		return "ended: " + printer.Sprintf("%s", r.Reason)
	case r.Failed != 0:
		return "failed: " + printer.Sprintf("%s", r.FailedText)
	}
	return fmt.Sprintf("exited with status %d", r.ExitStatus)
}
