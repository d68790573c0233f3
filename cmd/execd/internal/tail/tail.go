// Package tail is the command execd tail: it shows the end of a job's output, and follows the output
// until the job has finished.
//
// The command reads output files with the rights of the caller, and escapes control characters in
// the output of jobs.
//
// Other projects should not import this package: it may change at any time.
package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/wait"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/standalone/api"
)

// Usage is the output of --help.
const Usage = `Usage: execd tail [options] JOB[.TASK]

Shows the end of a job's standard output. With --follow (or -f) it continues to show what the
job writes, also after the job was requeued, until the job has finished. Of an array job it
shows the tasks that are running, and follows all tasks.

  --follow   follow the output until the job has finished, and exit with its status; also -f
  --lines N  number of lines to begin with (default: 10); also -n
  --stderr   show standard error, if it has a file of its own
  --raw      print the output as it is, with escape sequences and invalid UTF-8
  --help     print this text

Exit status: 0; 1 if the job is unknown or the output cannot be read; 2 for wrong usage. With
--follow that of execd wait: the job's, 1 if it was killed, 130 if interrupted, which does
not affect the job.
`

// The exit statuses of the command, besides options.ExitUsage and those of jobs.
const (
	ExitGood        = 0
	ExitFailed      = 1
	ExitInterrupted = 130
)

// Command is one call of execd tail.
type Command struct {
	Args           []string // words after "execd tail"
	Stdout, Stderr io.Writer
	Terminal       bool // standard error is a terminal
}

// request holds the options of the command line.
type request struct {
	job, task int // task is 0 for all
	stream    int // 0 for standard output, 1 for standard error
	lines     int
	raw       bool
	find      *output.Finder
}

// Limits for finding the first lines, and for the running tasks of an array job whose output the
// command shows without --follow.
const (
	firstBytes = 1 << 20
	mostLines  = 100_000
	mostTasks  = 20
)

// Run runs the command and returns the exit status. A returned error has not been printed yet. When
// the context is done it returns ExitInterrupted, even if a stopped terminal or a full pipe holds its
// output.
func (c *Command) Run(ctx context.Context) (int, error) {
	of := *c
	of.Stdout = terminal.NewWriter(ctx, c.Stdout)
	status, err := of.run(ctx)
	if err != nil && ctx.Err() != nil {
		return ExitInterrupted, nil //nolint:nilerr // the user knows why
	}
	return status, err
}

func (c *Command) run(ctx context.Context) (int, error) {
	q, follow, err := c.parse()
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	session, err := qclient.Dial(ctx, "execd tail", c.Stderr)
	if err != nil {
		return ExitFailed, err
	}
	defer session.Close()
	p := newPrinter(c.Stdout, q)
	d, err := look(ctx, session, q.job)
	switch {
	case err != nil:
		return ExitFailed, err
	case d == nil:
		return c.finished(ctx, session, q, p, follow)
	case q.task > 0 && len(d.TaskIDs) == 0:
		return ExitFailed, fmt.Errorf("job %d is not an array job", q.job)
	case !follow:
		if err := showNow(d, q, p); err != nil {
			return ExitFailed, err
		}
		return ExitGood, nil
	}
	there, err := present(ctx, session, q)
	if err != nil {
		return ExitFailed, err
	}
	if !there {
		return c.finished(ctx, session, q, p, follow)
	}
	return c.follow(ctx, session, q, p, d)
}

func (c *Command) parse() (q request, follow bool, err error) {
	q.lines, q.find = 10, output.NewFinder(userdb.System())
	var number string
	var stderr bool
	var args []string
	for _, word := range c.Args {
		switch word { // the options of tail(1)
		case "-f":
			word = "--follow"
		case "-n":
			word = "--lines"
		}
		args = append(args, word)
	}
	line, err := options.Parse(Usage, args, options.Values{"follow": &follow, "lines": &number, "stderr": &stderr, "raw": &q.raw})
	if err != nil {
		return q, false, err
	}
	if number != "" {
		if q.lines, err = strconv.Atoi(number); err != nil || q.lines < 0 || q.lines > mostLines {
			return q, false, options.Usagef("invalid number of lines %q: expected a number from 0 to %d", number, mostLines)
		}
	}
	if stderr {
		q.stream = 1
	}
	if len(line.Operands) != 1 {
		return q, false, options.Usagef("expected one job, and there are %d arguments", len(line.Operands))
	}
	job, task, array := strings.Cut(line.Operands[0], ".")
	q.job, err = strconv.Atoi(job)
	if err == nil && array {
		if q.task, err = strconv.Atoi(task); q.task < 1 {
			q.job = 0
		}
	}
	if err != nil || q.job < 1 || q.job > math.MaxInt32 || q.task > math.MaxInt32 {
		return q, false, options.Usagef("invalid job %q: expected a number such as 17, or 17.3 for a task", line.Operands[0])
	}
	return q, follow, nil
}

// look returns the daemon's data of a job; nil if the daemon does not know the job.
func look(ctx context.Context, session *qclient.Session, job int) (*qstat.JobDetail, error) {
	d, err := session.View(ctx, "qstat", "-j", strconv.Itoa(job))
	switch {
	case err != nil && qclient.Refused(err):
		return nil, nil
	case err != nil:
		return nil, err
	case len(d.Details) != 1:
		return nil, nil
	}
	return &d.Details[0], nil
}

// present reports whether the wanted task is still running or pending.
func present(ctx context.Context, session *qclient.Session, q request) (bool, error) {
	if q.task == 0 {
		return true, nil
	}
	tasks, err := unfinished(ctx, session, q.job)
	return contains(tasks, q.task), err
}

// unfinished returns the tasks of an array job that are running or pending.
func unfinished(ctx context.Context, session *qclient.Session, job int) (tasks []qstat.Range, err error) {
	list, err := session.View(ctx, "qstat", "-u", "*")
	if err != nil {
		return nil, err
	}
	for _, j := range list.Jobs {
		if j.ID == job {
			for _, t := range j.Tasks {
				tasks = append(tasks, t.IDs...)
			}
		}
	}
	return tasks, nil
}

// contains reports whether a task is in one of the ranges.
func contains(tasks []qstat.Range, task int) bool {
	return slices.ContainsFunc(tasks, func(r qstat.Range) bool {
		return r.First <= task && task <= r.Last && (task-r.First)%max(r.Step, 1) == 0
	})
}

// file returns the path of the output of a task.
func (q *request) file(files []qstat.OutputFile, task int) (string, error) {
	if len(files) == 0 {
		return "", fmt.Errorf("job %d has no output file on this host: it is interactive, or its files are unknown", q.job)
	}
	if q.stream >= len(files) {
		return "", fmt.Errorf("standard error of job %d is in the file of standard output", q.job)
	}
	return q.find.Path(files[q.stream], task)
}

// perTask reports whether each task has an output file of its own.
func (q *request) perTask(d *qstat.JobDetail) bool {
	if len(d.TaskIDs) == 0 || q.task > 0 {
		return false
	}
	one, err := q.file(d.OutputFiles, 1)
	two, err2 := q.file(d.OutputFiles, 2)
	return err == nil && err2 == nil && one != two
}

// showNow prints the end of the output of a running or pending job.
func showNow(d *qstat.JobDetail, q request, p *outputPrinter) error {
	tasks := []int{q.task}
	if q.perTask(d) {
		if tasks = running(d); len(tasks) == 0 {
			return fmt.Errorf("no task of job %d is running: name a task, such as %d.%d", q.job, q.job, d.TaskIDs[0].First)
		}
		if len(tasks) > mostTasks {
			return fmt.Errorf("%d tasks of job %d are running: name a task, such as %d.%d", len(tasks), q.job, q.job, tasks[0])
		}
		p.headers = len(tasks) > 1
	}
	for _, task := range tasks {
		path, err := q.file(d.OutputFiles, task)
		if err != nil {
			return err
		}
		if err := p.end(path, task); err != nil && (len(tasks) == 1 || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// running returns the running tasks of a job.
func running(d *qstat.JobDetail) (tasks []int) {
	for _, t := range d.Details {
		if t.Running {
			tasks = append(tasks, t.Task)
		}
	}
	return tasks
}

// finished prints the end of the output of a job that the daemon no longer knows.
func (c *Command) finished(ctx context.Context, session *qclient.Session, q request, p *outputPrinter, follow bool) (int, error) {
	name, err := session.Places(ctx)
	if err != nil {
		return ExitFailed, err
	}
	ends, err := wait.Ends(ctx, name, q.job)
	switch {
	case ctx.Err() != nil:
		return ExitInterrupted, nil //nolint:nilerr // the user knows why
	case err != nil:
		return ExitFailed, err
	}
	ends = chosen(ends, q.task)
	if len(ends) == 0 {
		return ExitFailed, fmt.Errorf("job %s is unknown: the daemon does not have it, and there is no accounting record", q)
	}
	var paths []string // tasks may share a file
	tasks := map[string]int{}
	for _, r := range ends {
		path, err := q.file(output.Files(r), r.Task)
		if err != nil {
			return ExitFailed, err
		}
		if _, again := tasks[path]; !again {
			paths, tasks[path] = append(paths, path), r.Task
		}
	}
	if len(paths) > mostTasks {
		return ExitFailed, fmt.Errorf("job %d has finished, with %d output files: name a task, such as %d.%d", q.job, len(paths), q.job, ends[0].Task)
	}
	p.headers = len(paths) > 1
	for _, path := range paths {
		if err := p.end(path, tasks[path]); err != nil {
			return ExitFailed, err
		}
	}
	if !follow {
		return ExitGood, nil
	}
	return c.status(q, ends, true), nil
}

// chosen returns the records of the wanted task, or all records without one.
func chosen(ends []*accounting.Record, task int) (some []*accounting.Record) {
	for _, r := range ends {
		if task == 0 || r.Task == task {
			some = append(some, r)
		}
	}
	return some
}

// status returns the exit status for a finished job. If the job failed, or on a terminal, it prints
// how the job ended.
func (c *Command) status(q request, ends []*accounting.Record, known bool) int {
	if q.task > 0 && len(ends) == 1 {
		r := *ends[0]
		r.Task = 0 // the message names it
		ends = []*accounting.Record{&r}
	}
	text, status := wait.Verdict(ends, known)
	if status != 0 || c.Terminal {
		printer.Fprintf(c.Stderr, "Job %s %s\n", q, printer.Trusted(text))
	}
	return status
}

// String returns the job as the user typed it.
func (q request) String() string {
	if q.task > 0 {
		return fmt.Sprintf("%d.%d", q.job, q.task)
	}
	return strconv.Itoa(q.job)
}

// record converts the daemon's report of a task's end into a record for wait.Verdict.
func record(e api.End) *accounting.Record {
	r := &accounting.Record{Task: int(e.Task), ExitStatus: e.ExitStatus, Signal: e.Signal, Reason: e.Reason}
	if e.Failed != 0 && r.Reason == "" {
		r.Reason = fmt.Sprintf("failure %d of sge_status(5)", e.Failed)
	}
	if e.Failed != 0 && r.ExitStatus == 0 {
		r.ExitStatus = ExitFailed
	}
	return r
}
