package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// Usage is what --help prints.
const Usage = `Usage: execd simulate --conf DIR --jobs FILE | --trace FILE [options]
       execd simulate --case DIR --out DIR

The first form predicts when and where a cluster with the configuration in DIR would
run jobs: those of a file of qsub lines, or those of a trace of a real machine in the
Standard Workload Format (.swf, .swf.gz). No job runs, and time jumps. It prints when
and where each task started.

  --until TIME     stop after TIME: seconds, or hours:minutes:seconds
  --start TIME     start time, [[CC]YY]MMDDhhmm[.SS] in UTC, for calendars and the
                   options -a and -dl of jobs (default: that of the trace, else
                   the beginning of 2026)
  --format FORMAT  text (default) or json
  --summary        print waits, slowdowns and utilisation after the tasks
  --no-tasks       do not print the tasks
  --wide           print times in seconds, and priorities and tickets as well, in
                   lines that are longer than 100 columns
  --progress       print the progress to standard error every ten seconds
                   (default on a terminal)
  --load FILE      load reports of hosts: lines HOST:ATTRIBUTE:VALUE (default: no
                   load, and as many processors as slots)

Options for traces:
  --pe NAME        parallel environment of jobs with more than one processor
                   (default: *, any)
  --memory NAME    request the memory of jobs as this resource, such as h_vmem
  --queue PREFIX   put jobs of queue N into the queue PREFIX followed by N
  --reserve        parallel jobs reserve (qsub -R y)

The second form replays the recorded case in DIR (its configuration in input, its
script in jobs.txt) and writes what qstat and the other commands would print at
each capture of the script to files in the other DIR: STEP/qstat.txt and so on,
and the answers of all commands to answers.txt.

  --help           print this text

Exit status: 0 if done, 1 if the input is invalid, 2 for wrong usage or if files could
not be read or written.
`

// options are what the command line says.
type options struct {
	caseDir, out string

	conf, jobs, trace string
	until, start      string
	format, load      string
	summary, noTasks  bool
	wide              bool
	pe, memory, queue string
	reserve, progress bool
	help              bool
	untilTime         int64
	startTime         submit.DateTime
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	values := map[string]*string{
		"case": &o.caseDir, "out": &o.out, "conf": &o.conf, "jobs": &o.jobs, "trace": &o.trace, "until": &o.until, "start": &o.start,
		"format": &o.format, "load": &o.load, "pe": &o.pe, "memory": &o.memory, "queue": &o.queue,
	}
	switches := map[string]*bool{"summary": &o.summary, "no-tasks": &o.noTasks, "wide": &o.wide, "reserve": &o.reserve, "progress": &o.progress, "help": &o.help, "h": &o.help}
	given := map[string]bool{}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		name, isOption := strings.CutPrefix(word, "-")
		name, value, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		to, on := values[name], switches[name]
		switch {
		case !isOption:
			return nil, &UsageError{fmt.Sprintf("expected an option, not %q", word)}
		case to == nil && on == nil:
			return nil, &UsageError{fmt.Sprintf("unknown option %q%s", word, nearest.Hint("--", name, slices.Concat(slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(switches)))))}
		case given[name]:
			return nil, &UsageError{fmt.Sprintf("--%s is given twice", name)}
		case on != nil && hasValue:
			return nil, &UsageError{fmt.Sprintf("--%s takes no value", name)}
		}
		given[name] = true
		if on != nil {
			if *on = true; o.help {
				return o, nil
			}
			continue
		}
		if !hasValue {
			if len(args) == 0 {
				return nil, &UsageError{fmt.Sprintf("--%s needs a value", name)}
			}
			value, args = args[0], args[1:]
		}
		if value == "" {
			return nil, &UsageError{fmt.Sprintf("--%s has an empty value", name)}
		}
		*to = value
	}
	return o, o.check(given)
}

// check refuses what does not go together, and reads the values.
func (o *options) check(given map[string]bool) error {
	if o.caseDir != "" {
		for name := range given {
			if name != "case" && name != "out" {
				return &UsageError{fmt.Sprintf("--case and --%s do not go together", name)}
			}
		}
		if o.out == "" {
			return &UsageError{"--case needs --out DIR"}
		}
		return nil
	}
	switch {
	case o.conf == "":
		return &UsageError{"expected --conf DIR or --case DIR"}
	case o.out != "":
		return &UsageError{"--out is for --case"}
	case (o.jobs == "") == (o.trace == ""):
		return &UsageError{"expected either --jobs FILE or --trace FILE"}
	}
	for _, name := range []string{"pe", "memory", "queue", "reserve"} {
		if o.trace == "" && given[name] {
			return &UsageError{fmt.Sprintf("--%s is for --trace", name)}
		}
	}
	switch o.format {
	case "":
		o.format = "text"
	case "text", "json":
	default:
		return &UsageError{fmt.Sprintf("--format %q: expected text or json", o.format)}
	}
	if o.wide && (o.format == "json" || o.noTasks) {
		return &UsageError{"--wide is for a table of tasks, without --no-tasks and --format json"}
	}
	if o.until != "" {
		v, err := quantity.Time(o.until)
		if err != nil || v == 0 || v > 1<<40 {
			return &UsageError{fmt.Sprintf("--until %q: expected seconds or hours:minutes:seconds, above 0", o.until)}
		}
		o.untilTime = int64(v)
	}
	if o.start != "" {
		var err error
		if o.startTime, err = submit.ParseDateTime(o.start); err != nil {
			return &UsageError{fmt.Sprintf("--start %q: %v", o.start, err)}
		}
	}
	return nil
}
