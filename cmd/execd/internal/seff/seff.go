// Package seff is the command execd seff. It compares what finished jobs used with what they requested, from
// their accounting records, and says what to request next time.
//
// Other projects should not import this package: it may change at any time.
package seff

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/usagetext"
)

// Usage is the output of --help.
const Usage = `Usage: execd seff [options] JOB[.TASK]...

Compares the run time, CPU time and memory of finished jobs with their requests, and shows what
to request next time. For an array job it adds up the tasks, and shows the memory of the task
that used most.

  --file FILE  accounting file, - for standard input (default: that of the daemon)
  --json       print JSON, one object for each job
  --help       print this text

Exit status: 0; 1 if a job has no record, because it is unknown or not finished; 2 for wrong
usage.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitFailed = 1 // a job has no record, or the file cannot be read
)

// Command is one call of execd seff.
type Command struct {
	Args           []string // words after "execd seff"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	File           func() string // accounting file if there is no --file; see records.Open
}

// wanted is a job of the command line.
type wanted struct {
	job, task int // task is 0 for all tasks
}

// result is the sum of the records of a job.
type result struct {
	accounting.Efficiency
	last *accounting.Record // the last record, for name, owner and status; nil without a record
}

// Run carries out the command and returns the exit status. The caller prints the error.
func (c *Command) Run() (int, error) {
	var file string
	var asJSON bool
	line, err := options.Parse(Usage, c.Args, options.Values{"file": &file, "json": &asJSON})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if len(line.Operands) == 0 {
		return options.ExitUsage, options.Usagef("expected the number of a job")
	}
	var jobs []wanted
	for _, word := range line.Operands {
		w, ok := parseJob(word)
		if !ok {
			return options.ExitUsage, options.Usagef("invalid job %q: expected a number such as 17, or 17.3 for a task", word)
		}
		jobs = append(jobs, w)
	}
	results, err := c.read(file, jobs)
	if err != nil {
		return ExitFailed, err
	}
	out, status := bufio.NewWriter(c.Stdout), ExitGood
	for i, w := range jobs {
		if results[i].last == nil {
			printer.Fprintf(c.Stderr, "execd seff: job %s has no accounting record: it is unknown or not finished\n", w)
			status = ExitFailed
			continue
		}
		if asJSON {
			text, err := json.Marshal(results[i].view())
			if err != nil {
				return ExitFailed, err
			}
			text = append(printable.AppendJSON(nil, text), '\n')
			if _, err := out.Write(text); err != nil {
				return ExitFailed, err
			}
			continue
		}
		results[i].show(out)
	}
	return status, out.Flush()
}

// parseJob reads JOB or JOB.TASK.
func parseJob(word string) (w wanted, ok bool) {
	number, task, array := strings.Cut(word, ".")
	var err error
	if w.job, err = strconv.Atoi(number); err != nil || w.job <= 0 {
		return w, false
	}
	if array {
		if w.task, err = strconv.Atoi(task); err != nil || w.task <= 0 {
			return w, false
		}
	}
	return w, true
}

func (w wanted) String() string {
	if w.task > 0 {
		return fmt.Sprintf("%d.%d", w.job, w.task)
	}
	return strconv.Itoa(w.job)
}

// read adds up the records of the jobs, each in the order of the command line.
func (c *Command) read(name string, jobs []wanted) ([]result, error) {
	results := make([]result, len(jobs))
	var file *records.File
	var err error
	if name != "" {
		file, err = records.OpenNamed(name, c.Stdin)
	} else {
		file, err = records.Open(c.File())
	}
	if errors.Is(err, os.ErrNotExist) && name == "" {
		return results, nil // the daemon has not written a record yet
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the accounting file: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if err := file.CheckFormat(in, "execd seff --file - JOB"); err != nil {
		return nil, err
	}
	only := 0
	if len(jobs) == 1 {
		only = jobs[0].job
	}
	err = records.Each(context.Background(), in, only, func(r *accounting.Record) error {
		for i, w := range jobs {
			if w.job == r.Job && (w.task == 0 || w.task == r.Task) {
				results[i].Add(r)
				results[i].last = r
			}
		}
		return nil
	}, func(int, error) {}) // qacct reports invalid lines
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file.Name, err)
	}
	return results, nil
}

// show prints the result for people.
func (r *result) show(w io.Writer) {
	printer.Fprintf(w, "Job %d (%s) of %s: %s\n", r.last.Job, r.last.JobName, r.last.Owner, printer.Trusted(r.outcome()))
	text := usagetext.Clock(r.Longest)
	if r.Records > 1 {
		text += fmt.Sprintf(" at most, %s in all", usagetext.Clock(r.Wallclock))
	}
	if r.TimeLimit > 0 {
		text += fmt.Sprintf(", %s of the %s requested (h_rt)", usagetext.Percent(r.Longest/float64(r.TimeLimit)), usagetext.Clock(float64(r.TimeLimit)))
	}
	printer.Fprintf(w, "  Run time  %s\n", printer.Trusted(text))
	text = usagetext.Clock(r.CPU)
	if r.Granted > 0 {
		text += fmt.Sprintf(", %s of %s", usagetext.Percent(r.CPUPart()), usagetext.Slots(r.Slots))
	}
	printer.Fprintf(w, "  CPU time  %s\n", printer.Trusted(text))
	switch text = "not measured"; {
	case r.Memory > 0 && r.Requested > 0:
		text = fmt.Sprintf("%s at most, %s of the %s requested (%s", usagetext.Memory(r.Memory), usagetext.Percent(r.MemoryPart()), usagetext.Memory(r.Requested), r.Request)
		if r.Slots > 1 {
			text += " for each slot"
		}
		text += ")"
	case r.Memory > 0:
		text = usagetext.Memory(r.Memory) + " at most, nothing requested"
	}
	printer.Fprintf(w, "  Memory    %s\n", text)
	if r.GPU.Count > 0 {
		printer.Fprintf(w, "  GPU time  %s\n", printer.Trusted(usagetext.GPUs(&r.GPU)))
	}
	if advice := r.Advice(); len(advice) > 0 {
		printer.Fprintf(w, "  Next time request %s\n", strings.Join(advice, " "))
	}
}

// outcome returns one phrase about how the job ended.
func (r *result) outcome() string {
	switch {
	case r.Records > 1 && r.Failed > 0:
		return fmt.Sprintf("%d of %d runs failed", r.Failed, r.Records)
	case r.Records > 1:
		return fmt.Sprintf("%d runs, none failed", r.Records)
	case r.last.Reason != "":
		return printable.String(r.last.Reason)
	case r.last.Failed != 0:
		return "failed: " + printable.String(r.last.FailedText)
	}
	return fmt.Sprintf("finished with exit status %d", r.last.ExitStatus)
}

// view is a result as JSON. Names do not change.
type view struct {
	Job             int      `json:"job"`
	Name            string   `json:"name"`
	Owner           string   `json:"owner"`
	Records         int      `json:"records"`
	Failed          int      `json:"failed"`
	Slots           int      `json:"slots"`
	Wallclock       float64  `json:"wallclock"`
	Longest         float64  `json:"longest"`
	TimeLimit       uint64   `json:"timeLimit,omitempty"`
	CPU             float64  `json:"cpu"`
	CPUPart         float64  `json:"cpuPart"`
	Memory          uint64   `json:"memory,omitempty"`
	MemoryRequested uint64   `json:"memoryRequested,omitempty"`
	MemoryPart      float64  `json:"memoryPart,omitempty"`
	Request         string   `json:"request,omitempty"`
	Advice          []string `json:"advice,omitempty"`
	GPUs            int      `json:"gpus,omitempty"`
	GPUSeconds      float64  `json:"gpuSeconds,omitempty"`
	GPUMeasured     float64  `json:"gpuMeasured,omitempty"`
	GPUBusy         float64  `json:"gpuBusy,omitempty"`
	GPUMemory       int64    `json:"gpuMemory,omitempty"`
}

func (r *result) view() view {
	return view{
		Job: r.last.Job, Name: r.last.JobName, Owner: r.last.Owner, Records: r.Records, Failed: r.Failed, Slots: r.Slots,
		Wallclock: r.Wallclock, Longest: r.Longest, TimeLimit: r.TimeLimit, CPU: r.CPU, CPUPart: r.CPUPart(),
		Memory: r.Memory, MemoryRequested: r.Requested, MemoryPart: r.MemoryPart(), Request: r.Request, Advice: r.Advice(),
		GPUs: r.GPU.Count, GPUSeconds: r.GPU.Seconds, GPUMeasured: r.GPU.Measured, GPUBusy: r.GPU.Busy, GPUMemory: r.GPU.MaxMemory,
	}
}
