// Package ps is the command execd ps: a list of jobs for people.
//
// Other projects should not import this package: it may change at any time.
package ps

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qstat"
)

// Usage is the output of --help.
const Usage = `Usage: execd ps [options]

Lists your jobs for people: since when they have been running or pending, how far arrays have
come, and why a job is pending. Programs should read qstat -json instead: this list may change.

  --all         list the jobs of all users
  --user USER   list the jobs of this user
  --limit N     list at most this many jobs (default: 100, 0 for all)
  --color WHEN  always, never, or auto (default): colours if standard output is a terminal and
                the variable NO_COLOR is empty
  --help        print this text

Exit status: 0; 1 if no daemon answers; 2 for wrong usage.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitFailed = 1
)

// Colors are the values of --color.
var Colors = []string{"auto", "always", "never"}

// Command is one call of execd ps.
type Command struct {
	Args           []string // words after "execd ps"
	Stdout, Stderr io.Writer
	Terminal       bool // standard output is a terminal
	Width          int  // of the terminal in columns; 0 if there is none
	NoColor        bool // the variable NO_COLOR is not empty
	Now            time.Time
}

// defaultLimit is the number of jobs that are listed without --limit. The reasons why jobs are
// pending take the daemon longer than the list.
const defaultLimit = 100

// Run runs the command and returns the exit status. A returned error has not been printed yet.
func (c *Command) Run(ctx context.Context) (int, error) {
	var all bool
	var who, number, color string
	line, err := options.Parse(Usage, c.Args, options.Values{"all": &all, "user": &who, "limit": &number, "color": &color})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	switch {
	case len(line.Operands) > 0:
		return options.ExitUsage, options.Usagef("unexpected argument %q", line.Operands[0])
	case all && who != "":
		return options.ExitUsage, options.Usagef("--all and --user exclude each other")
	case color != "" && !slices.Contains(Colors, color):
		return options.ExitUsage, options.Usagef("invalid value %q of --color: expected %s", color, strings.Join(Colors, ", "))
	}
	limit := defaultLimit
	if number != "" {
		if limit, err = strconv.Atoi(number); err != nil || limit < 0 {
			return options.ExitUsage, options.Usagef("invalid number of jobs %q: expected a number, 0 for all", number)
		}
	}
	switch {
	case all:
		who = "*"
	case who == "":
		me, err := userdb.System().UserID(uint32(os.Getuid()))
		if err != nil {
			return ExitFailed, fmt.Errorf("cannot determine your user name: %w", err)
		}
		who = me.Name
	}
	session, err := qclient.Dial(ctx, "execd ps", c.Stderr)
	if err != nil {
		return ExitFailed, err
	}
	defer session.Close()
	ask := func(ctx context.Context, command ...string) (*qstat.Document, error) {
		return session.View(ctx, command[0], command[1:]...)
	}
	list, err := ask(ctx, "qstat", "-u", who)
	if err != nil {
		return ExitFailed, err
	}
	shown := list.Jobs
	if limit > 0 {
		shown = shown[:min(limit, len(shown))]
	}
	rows, err := joblist.Rows(ctx, ask, shown)
	if err != nil {
		return ExitFailed, err
	}
	p := &page{colors: color == "always" || color != "never" && c.Terminal && !c.NoColor, now: c.Now.Unix()}
	if p.width = c.Width; p.width <= 0 {
		p.width = math.MaxInt
	}
	out := bufio.NewWriter(c.Stdout)
	if _, err := out.WriteString(p.text(rows, len(list.Jobs))); err != nil {
		return ExitFailed, err
	}
	if err := out.Flush(); err != nil {
		return ExitFailed, err
	}
	return ExitGood, nil
}

// page formats the list as text.
type page struct {
	colors bool
	width  int // maximum length of a line
	now    int64
	b      strings.Builder
}

// columns lists the titles of the columns. Every column except the last is as wide as its widest
// value.
var columns = []string{"JOB", "NAME", "USER", "STATE", "TIME", "SLOTS", "QUEUE"}

// widest is the maximum width of a column; longer values are cut.
const widest = 24

// The columns that the code names, by their index in columns.
const (
	nameColumn  = 1
	userColumn  = 2
	stateColumn = 3
)

// barWidth is the width of the bar of an array job.
const barWidth = 20

// text returns the list. total is the number of all jobs; rows may contain fewer.
func (p *page) text(rows []joblist.Row, total int) string {
	if total == 0 {
		return "There are no jobs.\n"
	}
	var table [][]string
	for i := range rows {
		table = append(table, p.cells(&rows[i]))
	}
	widths := make([]int, len(columns))
	for i, head := range columns {
		widths[i] = len(head)
		for _, cells := range table {
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
	}
	p.line(columns, widths, "")
	for i := range rows {
		p.line(table[i], widths, stateColors[rows[i].Condition()])
		p.notes(&rows[i])
	}
	if more := total - len(rows); more > 0 {
		printer.Fprintf(&p.b, "%d more jobs: list them with --limit 0\n", more)
	}
	return p.b.String()
}

// cells returns the values of a job, in the order of columns.
func (p *page) cells(r *joblist.Row) []string {
	since := r.Started
	if since == 0 {
		since = r.Submitted
	}
	cells := []string{
		strconv.Itoa(r.ID), r.Name, r.Owner, strings.Join(r.States, ", "), joblist.Duration(float64(p.now - since)), strconv.Itoa(r.Slots), r.Where,
	}
	for i, cell := range cells {
		if cell = printable.String(cell); cell == "" {
			cell = "-"
		}
		if i == nameColumn || i == userColumn {
			cell = shorten(cell, widest)
		}
		cells[i] = cell
	}
	return cells
}

// line prints the values of a line in columns. color is the color of the state.
func (p *page) line(cells []string, widths []int, color string) {
	room := p.width
	for i, cell := range cells {
		last := i == len(cells)-1
		cell = shorten(cell, room)
		pad := max(widths[i]-utf8.RuneCountInString(cell), 0) + 2
		if last {
			pad = 0
		}
		if i == stateColumn {
			cell = p.paint(cell, color)
		}
		p.b.WriteString(cell)
		if room -= widths[i] + 2; room <= 0 || last {
			break
		}
		p.b.WriteString(strings.Repeat(" ", pad))
	}
	p.b.WriteByte('\n')
}

// indent precedes the lines below a job's line.
const indent = "    "

// notes prints additional lines about a job: the progress of an array, and why it is pending.
func (p *page) notes(r *joblist.Row) {
	if g := r.Progress; g != nil && g.Total > 0 {
		done := min(max(g.Done*barWidth/g.Total, 0), barWidth)
		text := fmt.Sprintf(" %d of %d tasks done", g.Done, g.Total)
		if g.Failed > 0 {
			text += fmt.Sprintf(", %d in error state", g.Failed)
		}
		p.b.WriteString(indent + shorten("["+strings.Repeat("#", done)+strings.Repeat("-", barWidth-done)+"]"+text, p.width-len(indent)) + "\n")
	}
	for i, why := range r.Why {
		text := "waits for " + printable.String(why)
		if i == 0 && r.Expected > p.now {
			text += "; expected to start in " + joblist.Duration(float64(r.Expected-p.now))
		}
		p.b.WriteString(indent + shorten(text, p.width-len(indent)) + "\n")
	}
}

// Colours of states (ECMA-48, select graphic rendition).
const (
	red, green, yellow = "31", "32", "33"
)

// stateColors are the colours of the states of jobs.
var stateColors = map[joblist.Condition]string{joblist.Waiting: yellow, joblist.Running: green, joblist.Failed: red}

func (p *page) paint(text, color string) string {
	if !p.colors || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// shorten cuts a text to a width, and marks the cut.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	const mark = "..."
	if width <= len(mark) {
		return mark[:max(width, 0)]
	}
	return string([]rune(text)[:width-len(mark)]) + mark
}
