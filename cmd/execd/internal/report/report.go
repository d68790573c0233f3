// Package report is the command execd report: what finished jobs used, by user, project and queue.
//
// Other projects should not import this package: it may change at any time.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// Usage is the output of --help.
const Usage = `Usage: execd report [options]

Adds up the slot hours, CPU time and memory of finished jobs, and the time for which they were
pending, by user, project and queue. A run counts in the period in which it ended.

  --by GROUP   add up by user, project or queue; may be repeated (default: all three)
  --from TIME  start of the period: a date such as 2026-11-23, or 2026-11-23T14:00 (default: 30
               days before the end)
  --to TIME    end of the period, which is not part of it (default: now)
  --all        report on all records of the file
  --file FILE  accounting file, - for standard input (default: that of the daemon)
  --html       print a page for a browser, with plots; it needs no other file and no script
  --json       print JSON
  --help       print this text

Exit status: 0; 1 if the file cannot be read; 2 for wrong usage.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitFailed = 1
)

// Groups are the values of --by.
var Groups = []string{"user", "project", "queue"}

// Command is one call of execd report.
type Command struct {
	Args           []string // words after "execd report"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	File           func() string // accounting file if there is no --file; see records.OpenClassic
	Now            time.Time     // its time zone is used for reading and printing times
}

// defaultDays is the period of a report without options, in days.
const defaultDays = 30

// request holds the options of the command line.
type request struct {
	by       []string
	from, to time.Time // zero for no bound
	file     string
	json     bool
	html     bool
	shift    int64 // seconds by which the time zone is ahead of UTC now
}

// Run runs the command and returns the exit status. A returned error has not been printed yet.
func (c *Command) Run() (int, error) {
	q, err := c.parse()
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	sums, err := c.read(q)
	if err != nil {
		return ExitFailed, err
	}
	v := newView(q, sums)
	var text []byte
	switch {
	case q.html:
		var b bytes.Buffer
		if err := v.html(&b, sums, c.Now); err != nil {
			return ExitFailed, fmt.Errorf("cannot make the page: %w", err)
		}
		text = b.Bytes()
	case q.json:
		if text, err = json.Marshal(v); err != nil {
			return ExitFailed, err
		}
		text = append(printable.AppendJSON(nil, text), '\n')
	default:
		text = []byte(v.text(c.Now.Location()))
	}
	if _, err := c.Stdout.Write(text); err != nil {
		return ExitFailed, err
	}
	return ExitGood, nil
}

func (c *Command) parse() (*request, error) {
	q := &request{}
	_, shift := c.Now.Zone()
	q.shift = int64(shift)
	var from, to string
	var all bool
	line, err := options.Parse(Usage, c.Args, options.Values{"by": &q.by, "from": &from, "to": &to, "all": &all, "file": &q.file, "json": &q.json, "html": &q.html})
	if err != nil {
		return nil, err
	}
	if len(line.Operands) > 0 {
		return nil, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	if q.json && q.html {
		return nil, options.Usagef("--json and --html exclude each other")
	}
	for _, group := range q.by {
		if !slices.Contains(Groups, group) {
			return nil, options.Usagef("invalid value %q of --by: expected %s", group, strings.Join(Groups, ", "))
		}
	}
	if len(q.by) == 0 {
		q.by = Groups
	}
	if all {
		if from != "" || to != "" {
			return nil, options.Usagef("--all excludes --from and --to")
		}
		return q, nil
	}
	if q.to, err = c.moment("to", to, c.Now); err != nil {
		return nil, err
	}
	if q.from, err = c.moment("from", from, q.to.AddDate(0, 0, -defaultDays)); err != nil {
		return nil, err
	}
	if !q.from.Before(q.to) {
		return nil, options.Usagef("the start %s is not before the end %s", q.from.Format(dateTime), q.to.Format(dateTime))
	}
	return q, nil
}

const dateTime = "2006-01-02T15:04"

// moment returns the value of a time option.
func (c *Command) moment(option, value string, missing time.Time) (time.Time, error) {
	if value == "" {
		return missing, nil
	}
	for _, layout := range []string{time.DateOnly, dateTime, "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, value, c.Now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, options.Usagef("invalid time %q of --%s: expected a date such as 2026-11-23, or 2026-11-23T14:00", value, option)
}

// mostWorkers is the maximum number of goroutines that read records. Each has its own sums.
const mostWorkers = 8

// read adds up the records of the file.
func (c *Command) read(q *request) (*sums, error) {
	var file *records.File
	var err error
	if q.file != "" {
		file, err = records.OpenNamed(q.file, c.Stdin)
	} else if file, err = records.OpenClassic(c.File()); errors.Is(err, os.ErrNotExist) {
		return newSums(q), nil // the daemon has not written a record yet
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the accounting file: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if err := file.CheckFormat(in, "execd report --file -"); err != nil {
		return nil, err
	}
	parts := make([]*sums, min(runtime.GOMAXPROCS(0), mostWorkers))
	for i := range parts {
		parts[i] = newSums(q)
	}
	wrong, first := 0, 0
	err = records.EachParallel(in, len(parts), func(worker int, r *accounting.Record) { parts[worker].add(r) }, func(line int, _ error) {
		if wrong++; first == 0 || line < first {
			first = line
		}
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file.Name, err)
	}
	if wrong > 0 {
		printer.Fprintf(c.Stderr, "execd report: %s: ignored lines that are not records: %d, the first is line %d\n", file.Name, wrong, first)
	}
	for _, part := range parts[1:] {
		parts[0].merge(part)
	}
	return parts[0], nil
}

// view is the report as JSON. docs/json.md describes it.
type view struct {
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	Total    row        `json:"total"`
	Users    []row      `json:"users,omitempty"`
	Projects []row      `json:"projects,omitempty"`
	Queues   []row      `json:"queues,omitempty"`
}

// row holds the sums for one user, project or queue. Fractions are null if they are unknown.
type row struct {
	Name        string   `json:"name,omitempty"`
	Runs        int      `json:"runs"`
	Failed      int      `json:"failed"`
	SlotSeconds float64  `json:"slotSeconds"`
	CPU         float64  `json:"cpu"`
	CPUPart     *float64 `json:"cpuPart"`
	MemoryPart  *float64 `json:"memoryPart"`
	Pending     *float64 `json:"pending"`
}

func newView(q *request, s *sums) *view {
	v := &view{Total: s.total.row("")}
	if !q.to.IsZero() {
		v.From, v.To = &q.from, &q.to
	}
	for i, group := range s.groups {
		to := map[string]*[]row{"user": &v.Users, "project": &v.Projects, "queue": &v.Queues}[group]
		for name, u := range s.by[i] {
			*to = append(*to, u.row(name))
		}
		slices.SortFunc(*to, func(a, b row) int {
			switch {
			case a.SlotSeconds > b.SlotSeconds:
				return -1
			case a.SlotSeconds < b.SlotSeconds:
				return 1
			}
			return strings.Compare(a.Name, b.Name)
		})
	}
	return v
}

// text returns the report for people.
func (v *view) text(zone *time.Location) string {
	var b strings.Builder
	if v.To != nil {
		printer.Fprintf(&b, "Runs that ended from %s to %s\n", v.From.In(zone).Format("2006-01-02 15:04"), v.To.In(zone).Format("2006-01-02 15:04"))
	}
	if v.Total.Runs == 0 {
		b.WriteString("There are no records of jobs.\n")
		return b.String()
	}
	for _, t := range []struct {
		head string
		rows []row
	}{{"USER", v.Users}, {"PROJECT", v.Projects}, {"QUEUE", v.Queues}} {
		if len(t.rows) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		table(&b, t.head, append(slices.Clone(t.rows), v.Total))
	}
	return b.String()
}

// table prints rows in columns, the last one as the total.
func table(b *strings.Builder, head string, rows []row) {
	lines := [][]string{{head, "RUNS", "FAILED", "SLOT HOURS", "CPU HOURS", "CPU USED", "MEMORY USED", "PENDING"}}
	for i, r := range rows {
		name := printable.String(r.Name)
		if i == len(rows)-1 {
			name = "total"
		}
		lines = append(lines, []string{
			name, strconv.Itoa(r.Runs), strconv.Itoa(r.Failed), hours(r.SlotSeconds), hours(r.CPU), percent(r.CPUPart), percent(r.MemoryPart), span(r.Pending),
		})
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
}

func hours(seconds float64) string { return strconv.FormatFloat(seconds/3600, 'f', 1, 64) }

func percent(part *float64) string {
	if part == nil {
		return "-"
	}
	return strconv.FormatFloat(*part*100, 'f', 0, 64) + " %"
}

// span prints seconds as hours, minutes and seconds.
func span(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	s := int64(math.Round(max(*seconds, 0)))
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
