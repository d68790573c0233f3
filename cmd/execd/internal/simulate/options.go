package simulate

import (
	"maps"
	"slices"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// Usage is the output of --help.
const Usage = `Usage: execd simulate --conf DIR --jobs FILE | --trace FILE [options]
       execd simulate --case DIR --out DIR

The first form predicts when and where a cluster with the configuration in DIR would
run jobs: those of a file of qsub lines, or those of a trace of a real machine in the
Standard Workload Format (.swf, .swf.gz). No job runs, and time jumps. It prints when
and where each task started.

  --conf DIR       configuration directory
  --jobs FILE      jobs, as lines of qsub
  --trace FILE     jobs, as a trace
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

  --case DIR       recorded case to replay
  --out DIR        directory to write
  --help           print this text

Exit status: 0 if done, 1 if the input is invalid, 2 for wrong usage or if files could
not be read or written.
`

// settings are the options of the command line.
type settings struct {
	caseDir, out string

	conf, jobs, trace string
	until, start      string
	format, load      string
	summary, noTasks  bool
	wide              bool
	pe, memory, queue string
	reserve, progress bool
	untilTime         int64
	startTime         submit.DateTime
}

// parse reads the command line.
func parse(args []string) (*settings, error) {
	o := &settings{}
	texts := map[string]*string{
		"case": &o.caseDir, "out": &o.out, "conf": &o.conf, "jobs": &o.jobs, "trace": &o.trace, "until": &o.until, "start": &o.start,
		"format": &o.format, "load": &o.load, "pe": &o.pe, "memory": &o.memory, "queue": &o.queue,
	}
	to := options.Values{"summary": &o.summary, "no-tasks": &o.noTasks, "wide": &o.wide, "reserve": &o.reserve, "progress": &o.progress}
	for name, text := range texts {
		to[name] = text
	}
	line, err := options.Parse(Usage, args, to)
	if err != nil {
		return nil, err
	}
	if len(line.Operands) > 0 {
		return nil, options.Usagef("expected an option, not %q", line.Operands[0])
	}
	for _, name := range slices.Sorted(maps.Keys(line.Given)) {
		switch {
		case line.Given[name] > 1:
			return nil, options.Usagef("--%s is given twice", name)
		case texts[name] != nil && *texts[name] == "":
			return nil, options.Usagef("--%s has an empty value", name)
		}
	}
	return o, o.check(line.Given)
}

// check refuses options that contradict each other, and reads the values.
func (o *settings) check(given map[string]int) error {
	if o.caseDir != "" {
		for name := range given {
			if name != "case" && name != "out" {
				return options.Usagef("--case and --%s do not go together", name)
			}
		}
		if o.out == "" {
			return options.Usagef("--case needs --out DIR")
		}
		return nil
	}
	switch {
	case o.conf == "":
		return options.Usagef("expected --conf DIR or --case DIR")
	case o.out != "":
		return options.Usagef("--out is for --case")
	case (o.jobs == "") == (o.trace == ""):
		return options.Usagef("expected either --jobs FILE or --trace FILE")
	}
	for _, name := range []string{"pe", "memory", "queue", "reserve"} {
		if o.trace == "" && given[name] > 0 {
			return options.Usagef("--%s is for --trace", name)
		}
	}
	switch o.format {
	case "":
		o.format = "text"
	case "text", "json":
	default:
		return options.Usagef("--format %q: expected text or json", o.format)
	}
	if o.wide && (o.format == "json" || o.noTasks) {
		return options.Usagef("--wide is for a table of tasks, without --no-tasks and --format json")
	}
	if o.until != "" {
		v, err := quantity.Time(o.until)
		if err != nil || v == 0 || v > 1<<40 {
			return options.Usagef("--until %q: expected seconds or hours:minutes:seconds, above 0", o.until)
		}
		o.untilTime = int64(v)
	}
	if o.start != "" {
		var err error
		if o.startTime, err = submit.ParseDateTime(o.start); err != nil {
			return options.Usagef("--start %q: %v", o.start, err)
		}
	}
	return nil
}
