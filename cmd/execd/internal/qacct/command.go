package qacct

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/scheduler/expression"
)

// The exit statuses of the command.
const (
	ExitGood   = 0
	ExitFailed = 1 // nothing was found, or the command line is invalid
)

// Command is one call of qacct. Unless a comment says so, a field has no default: the caller must
// set it.
type Command struct {
	Args           []string // words after "qacct"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// File is the file to read without -f. If there is a file of the same name with the suffix
	// .jsonl, qacct reads that instead: it has the same records with more fields.
	File string
	// Advice is printed if that file does not exist.
	Advice string
	Now    time.Time // its time zone is used for reading and printing times
	// Group returns the name of a group by its ID, empty if there is none.
	Group func(gid uint32) string
	// Select returns the queue instances, as queue@host, that qselect prints for the options: -l
	// for the -l of qacct, -q for a host group. It is nil if there is no daemon to ask.
	Select func(options ...string) ([]string, error)
}

// Run runs the command and returns the exit status. A returned error is an error of writing to
// Stdout; all other errors have been printed.
func (c *Command) Run() (int, error) {
	s, err := parse(c.Args, c.Now)
	if errors.Is(err, errHelp) {
		_, err := io.WriteString(c.Stdout, Usage)
		return ExitGood, err
	}
	if wrong, ok := errors.AsType[*usageError](err); ok {
		printer.Fprintf(c.Stderr, "%s%s", printer.Trusted(printable.Lines(wrong.text)), printer.Trusted(Usage))
		return ExitFailed, nil
	}
	chosen, err := c.selection(s)
	if err != nil {
		printer.Fprintf(c.Stderr, "error: %v\n", err)
		return ExitFailed, nil
	}
	file, err := c.open(s)
	if err != nil {
		return c.noFile(s, err)
	}
	defer file.Close()
	out := bufio.NewWriterSize(c.Stdout, 1<<18)
	status, err := c.report(out, file, s, chosen)
	return status, errors.Join(err, out.Flush())
}

// noFile reports that there are no records at all.
func (c *Command) noFile(s *settings, err error) (int, error) {
	if s.file == "" && c.Advice != "" {
		defer func() { printer.Fprintf(c.Stderr, "qacct: %s\n", c.Advice) }()
	}
	if s.file == "" && c.File == "" {
		_, err := printer.Fprintf(c.Stdout, "no jobs running since startup\n")
		return ExitFailed, err
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		printer.Fprintf(c.Stderr, "%s: %s\n", path.Path, reason(path.Err))
	} else {
		printer.Fprintf(c.Stderr, "error: %v\n", err)
	}
	_, err = printer.Fprintf(c.Stdout, "no jobs running since startup\n")
	return ExitFailed, err
}

// reason returns the text of strerror(3), which begins with an upper-case letter.
func reason(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err.Error()
	}
	text := errno.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

func (c *Command) open(s *settings) (*records.File, error) {
	if s.file != "" {
		return records.OpenNamed(s.file, c.Stdin)
	}
	return records.Open(c.File)
}

// report reads the file and prints the requested records.
func (c *Command) report(out *bufio.Writer, file *records.File, s *settings, chosen *selection) (int, error) {
	sum := newSummary(s)
	found := false
	var line []byte
	status := ExitGood
	bad := func(n int, err error) {
		if err == nil {
			printer.Fprintf(c.Stderr, "error: ignoring invalid entry in line %d\n", n)
			return
		}
		status = ExitFailed // the path may be something other than a file
		printer.Fprintf(c.Stderr, "error: ignoring invalid entry in line %d of %s: %v\n", n, file.Name, err)
	}
	in := bufio.NewReader(file)
	err := file.CheckFormat(in, "qacct -f -")
	if err != nil {
		printer.Fprintf(c.Stderr, "error: %v\n", err)
		return ExitFailed, nil
	}
	err = records.Each(context.Background(), in, s.jobs.id, func(record *accounting.Record) error {
		r := entry{record, int64(record.Wallclock())}
		if !chosen.has(r.Record) {
			return nil
		}
		found = true
		sum.add(r)
		switch {
		case !s.jobs.given || s.jobs.none:
		case s.json:
			line = accounting.AppendJSON(line[:0], r.Record)
			_, err := out.Write(line)
			return err
		default:
			printRecord(out, r, c.Now.Location())
		}
		return nil
	}, bad)
	if err != nil {
		printer.Fprintf(c.Stderr, "error: cannot read %s: %v\n", file.Name, err)
		return ExitFailed, nil
	}
	switch {
	case s.jobs.given && !s.jobs.all:
		if !found {
			printer.Fprintf(c.Stderr, "%s\n", missing(s))
			return ExitFailed, nil
		}
	case s.json && !s.jobs.given:
		return status, sum.printJSON(out)
	case !s.json:
		sum.print(out)
	}
	return status, nil
}

// missing returns the message if there is no record of the requested job.
func missing(s *settings) string {
	j := &s.jobs
	if s.tasks == nil {
		if j.id != 0 {
			return fmt.Sprintf("error: job id %d not found", j.id)
		}
		return fmt.Sprintf("error: job name %s not found", j.name)
	}
	var ranges []string
	for _, t := range s.tasks {
		ranges = append(ranges, fmt.Sprintf("%d-%d:%d", t.first, t.last, t.step))
	}
	name := fmt.Sprintf("%q", j.name)
	if j.id != 0 {
		name = fmt.Sprint(j.id)
	}
	return fmt.Sprintf("error: Job-array tasks %s.%s not found", name, strings.Join(ranges, ","))
}

// selection converts the settings to the conditions for records.
func (c *Command) selection(s *settings) (*selection, error) {
	chosen := &selection{s: s}
	if s.jobs.given && !s.jobs.all && s.jobs.id == 0 {
		chosen.name = expression.CompilePattern(false, s.jobs.name)
	}
	if s.group.exact {
		if n, ok := leadingNumber(s.group.value); ok && c.Group != nil {
			if name := c.Group(uint32(n)); name != "" {
				s.group.value = name
			}
		}
	}
	for _, value := range s.queues {
		q, err := c.queues(value)
		if err != nil {
			return nil, err
		}
		chosen.queues = append(chosen.queues, q)
	}
	if s.requested {
		var err error
		if chosen.resources, err = c.ask("-l", s.resources); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// queues parses a value of -q.
func (c *Command) queues(value string) (queues, error) {
	queue, host, ok := strings.Cut(value, "@")
	switch {
	case queue != "" && strings.HasPrefix(host, "@"):
		members, err := c.ask("-q", value)
		if err == nil && len(members) == 0 {
			err = fmt.Errorf("there is no queue %s", value)
		}
		return queues{instances: members}, err
	case ok:
		return queues{queue: expression.CompilePattern(false, queue), host: expression.CompilePattern(false, host)}, nil
	}
	return queues{queue: expression.CompilePattern(false, queue)}, nil
}

// ask returns the queue instances that match an option.
func (c *Command) ask(option, value string) (instances, error) {
	if c.Select == nil {
		return nil, fmt.Errorf("%s %s needs the configuration of a cell, and there is none here", option, value)
	}
	list, err := c.Select(option, value)
	members := instances{}
	for _, name := range list {
		members[instance(name)] = true
	}
	return members, err
}

// instance returns the name of a queue instance in the form used for comparison.
func instance(name string) string {
	queue, host, _ := strings.Cut(name, "@")
	return queue + "@" + strings.ToLower(host)
}
