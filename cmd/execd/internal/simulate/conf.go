package simulate

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/calendar"
	"github.com/execd-project/execd/simulate/runner"
	"github.com/execd-project/execd/simulate/swf"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
)

// begin is the default start time of simulations: 1 January 2026, UTC.
const begin = 1767225600

// unreadable is an error of reading a file, not of its content.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// simulate runs jobs on a configuration. It reads all input before it starts.
func (c *Command) simulate(o *settings) (int, error) {
	cluster, err := c.configuration(o.conf)
	jobs, start, moreErr := c.work(o)
	load, loadErr := c.readLoad(o.load, cluster)
	if err := errors.Join(err, moreErr, loadErr); err != nil {
		if _, ok := errors.AsType[unreadable](err); ok {
			return ExitFiles, err
		}
		return ExitInvalid, err
	}
	if !o.startTime.IsZero() {
		start = o.startTime.Time(time.Unix(start, 0).UTC()).Unix()
	}
	ro := runner.Options{Start: start, Until: o.untilTime, Load: load}
	if c.Terminal || o.progress {
		ro.Progress = c.progress()
	}
	result, err := runner.Run(cluster, jobs, ro)
	if c.Terminal {
		printer.Fprintf(c.Stderr, "\r\x1b[K")
	}
	if err != nil {
		return ExitInvalid, err
	}
	for _, p := range result.Problems {
		c.warn(printer.Sprintf("warning: %v", p))
	}
	for _, r := range result.Refused {
		c.warn(printer.Sprintf("%s:%d: refused: %s", o.jobs+o.trace, r.Line, r.Text))
	}
	var text []byte
	if o.format == "json" {
		text, err = appendJSON(nil, result, o)
	} else {
		text = appendText(nil, result, o)
	}
	if err == nil {
		_, err = c.Stdout.Write(text)
	}
	if err != nil {
		return ExitFiles, fmt.Errorf("cannot write to standard output: %w", err)
	}
	return ExitDone, nil
}

// progress returns a function that prints the progress of a simulation: on a terminal in one line
// that changes, otherwise in separate lines, few enough for a log.
func (c *Command) progress() func(runner.Progress) {
	interval := 10 * time.Second
	if c.Terminal {
		interval = time.Second / 4
	}
	said := time.Now()
	return func(p runner.Progress) {
		now := time.Now()
		if now.Sub(said) < interval {
			return
		}
		said = now
		text := fmt.Sprintf("day %d: %d jobs submitted, %d tasks running, %d finished", p.Now/(24*3600), p.Submitted, p.Running, p.Finished)
		if c.Terminal {
			printer.Fprintf(c.Stderr, "\r\x1b[K%s", text)
		} else {
			c.warn(text)
		}
	}
}

// configuration reads a configuration directory and reports all of its errors.
func (c *Command) configuration(dir string) (*qconf.Cluster, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, unreadable{fmt.Errorf("cannot read the configuration: %w", err)}
	}
	cluster, err := qconf.LoadWith(os.DirFS(dir), qconf.Options{
		Year: func(text string) error { _, err := calendar.Parse(text, ""); return err },
		Week: func(text string) error { _, err := calendar.Parse("", text); return err },
		// The valid part is simulated, as a master would use it.
		Dangling: true,
	})
	found := qconf.Errors(err)
	if err == nil {
		for _, w := range cluster.Warnings() {
			c.warn("warning: " + there(dir, w).Error())
		}
		for _, m := range cluster.Missing() {
			c.warn("warning: " + there(dir, m).Error() + ": it is left out")
		}
		return cluster, nil
	}
	var errs []error
	for _, e := range found {
		errs = append(errs, there(dir, e))
	}
	return nil, errors.Join(errs...)
}

// there prepends dir to the name of the file in an error.
func there(dir string, e *qconf.Error) *qconf.Error {
	moved := *e
	if e.File != "" {
		moved.File = filepath.Join(dir, e.File)
	}
	return &moved
}

// work reads the jobs, and returns the time (Unix seconds) from which the first of them could have
// been submitted.
func (c *Command) work(o *settings) (jobs iter.Seq2[workload.Job, error], start int64, err error) {
	if o.trace != "" {
		return c.readTrace(o)
	}
	in, err := c.open(o.jobs)
	if err != nil {
		return nil, 0, unreadable{fmt.Errorf("cannot read the jobs: %w", err)}
	}
	defer in.Close()
	text, err := textfile.ReadLines(in, textfile.MaxList, textfile.MaxLine)
	if err != nil {
		return nil, 0, tooLarge("cannot read the jobs", o.jobs, err)
	}
	list, err := workload.Read(submit.File{Name: o.jobs, Text: text}, workload.Options{
		User: "user", ReadFile: readScript, Cwd: "/",
	})
	if err != nil {
		return nil, 0, err
	}
	return sequence(list), begin, nil
}

// readScript reads a file that a line of a job names.
func readScript(path string) ([]byte, error) { return userfile.Read(path, textfile.MaxScript) }

// open opens a file; - is standard input.
func (c *Command) open(name string) (io.ReadCloser, error) {
	if name == "-" && c.Stdin != nil {
		return io.NopCloser(c.Stdin), nil
	}
	return os.Open(name)
}

// tooLarge returns the error for a text that could not be read or is too large. A text that is too
// large counts as invalid input, like other mistakes in it.
func tooLarge(what, name string, err error) error {
	if e, ok := errors.AsType[*textfile.SizeError](err); ok {
		return &textfile.SizeError{Name: name, Line: e.Line, Limit: e.Limit}
	}
	return unreadable{fmt.Errorf("%s: %w", what, err)}
}

// readTrace reads a whole trace, so that the command does nothing if there is an error in it.
func (c *Command) readTrace(o *settings) (jobs iter.Seq2[workload.Job, error], start int64, err error) {
	in, err := c.open(o.trace)
	if err != nil {
		return nil, 0, unreadable{fmt.Errorf("cannot read the jobs: %w", err)}
	}
	defer in.Close()
	reader, err := swf.NewReader(o.trace, in)
	if err != nil {
		return nil, 0, err
	}
	start = begin
	if n, ok := reader.Header().Number(swf.UnixStartTime); ok && n > 0 {
		start = n
	}
	list, skipped, err := workload.FromTrace(reader, workload.Mapping{PE: o.pe, Memory: o.memory, Queue: o.queue, Reserve: o.reserve})
	if err != nil {
		return nil, 0, err
	}
	for reason, n := range skipped {
		if n > 0 {
			c.warn(fmt.Sprintf("%s: %d records left out: %s", o.trace, n, workload.Reason(reason)))
		}
	}
	return sequence(list), start, nil
}

// sequence returns the jobs of a list without errors.
func sequence(list []workload.Job) iter.Seq2[workload.Job, error] {
	return func(yield func(workload.Job, error) bool) {
		for _, j := range list {
			if !yield(j, nil) {
				return
			}
		}
	}
}

// maxLoadLine is the longest line of a file of load values, in bytes.
const maxLoadLine = 64 << 10

// readLoad reads the load values of hosts. It warns of values that the cluster, if it could be
// read, does not use.
func (c *Command) readLoad(name string, cluster *qconf.Cluster) (map[string]map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, unreadable{fmt.Errorf("cannot read the load values: %w", err)}
	}
	defer in.Close()
	text, err := textfile.ReadLines(in, textfile.MaxScript, maxLoadLine)
	if err != nil {
		return nil, tooLarge("cannot read the load values", name, err)
	}
	load := map[string]map[string]string{}
	var errs []error
	known := hosts(cluster)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || f[0] == "" || f[1] == "" {
			errs = append(errs, fmt.Errorf("%s:%d: %s: expected HOST:ATTRIBUTE:VALUE", name, number, textfile.Shorten(strconv.Quote(line))))
			continue
		}
		if load[f[0]] == nil {
			load[f[0]] = map[string]string{}
		}
		load[f[0]][f[1]] = f[2]
		if cluster == nil {
			continue
		}
		if !known[qconf.ShortName(strings.ToLower(f[0]))] {
			c.warn(fmt.Sprintf("warning: %s:%d: there is no host %q", name, number, f[0]))
		}
		if x, ok := cluster.Complexes().Find(f[1]); !ok {
			c.warn(fmt.Sprintf("warning: %s:%d: there is no complex %q: its value has no effect", name, number, f[1]))
		} else if err := x.Check(f[2]); err != nil {
			c.warn(fmt.Sprintf("warning: %s:%d: %s: %v: it counts as not reported", name, number, f[1], err))
		}
	}
	return load, errors.Join(errs...)
}

// hosts returns the hosts of a cluster and the global one, by their short names.
func hosts(cluster *qconf.Cluster) map[string]bool {
	known := map[string]bool{qconf.GlobalHost: true}
	if cluster == nil {
		return known
	}
	for _, name := range cluster.HostNames() {
		known[qconf.ShortName(strings.ToLower(name))] = true
	}
	for _, name := range cluster.QueueNames() {
		if q, err := cluster.Queue(name); err == nil {
			for _, h := range cluster.HostGroups().Resolve(q.Hosts) {
				known[qconf.ShortName(strings.ToLower(h))] = true
			}
		}
	}
	return known
}
