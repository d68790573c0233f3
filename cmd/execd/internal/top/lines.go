package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// style says how a text looks.
type style int

const (
	plain style = iota
	strong
	weak
	good
	waiting
	bad
	heading
	chosen // the selected job
)

// span is a text in a line.
type span struct {
	x, width int // in columns of the terminal; the text is cut to the width
	right    bool
	text     string
	style    style
}

// line is a line of the screen.
type line []span

// cell describes a column of the table.
type cell struct {
	head        string
	width, wide int // on a narrow screen and on a wide one
	right       bool
}

// wideScreen is the width of a screen with wide columns.
const wideScreen = 110

// cells describes the columns, in the order of the constants of type column.
var cells = [...]cell{
	{"JOB", 7, 7, true},
	{"NAME", 12, 20, false},
	{"USER", 8, 12, false},
	{"STATE", 10, 20, false},
	{"TIME", 7, 7, true},
	{"SLOTS", 5, 5, true},
	{"GPUS", 4, 4, true},
	{"CPU", 4, 5, true},
	{"MEMORY", 7, 7, true},
	{"QUEUE OR REASON", 0, 0, false}, // as wide as the rest of the line
}

// frame returns the lines of a screen. It scrolls to the selected job.
func (v *view) frame() []line {
	if v.height <= 0 || v.width <= 0 {
		return nil
	}
	if v.help {
		return v.helpFrame()
	}
	rows := v.rows()
	head := v.summary()
	if room := v.height - minLines; len(head) > room {
		head = head[:max(room, 0)]
	}
	lines := head
	if v.height > len(head)+2 {
		lines = append(lines, v.heads(v.width))
	}
	room := max(v.height-len(lines)-1, 0)
	v.settle(rows, room)
	for _, j := range rows[min(v.offset, len(rows)):min(v.offset+room, len(rows))] {
		l := v.row(j, v.width)
		if j.ID == v.selected {
			for i := range l {
				l[i].style = chosen
			}
			l = append(line{{0, v.width, false, "", chosen}}, l...)
		}
		lines = append(lines, l)
	}
	for len(lines) < v.height-1 {
		lines = append(lines, nil)
	}
	return append(lines, v.status(len(rows)))[:v.height]
}

// minLines is the number of lines that the table has at least, with its head and the line below it, on
// a screen that is high enough.
const minLines = 6

// list returns the lines for a printer: all jobs, and no selection.
func (v *view) list() []line {
	lines := append(v.summary(), nil, v.heads(v.width))
	for _, j := range v.rows() {
		lines = append(lines, v.row(j, v.width))
	}
	return lines
}

// summary returns the lines above the table.
func (v *view) summary() []line {
	s := v.shown
	if s == nil {
		return []line{{{0, v.width, false, "execd top", strong}}}
	}
	const most = 3
	var hosts strings.Builder
	for _, h := range s.hosts[:min(len(s.hosts), most)] {
		hosts.WriteString(", " + printable.String(h.Name))
		if h.Load != nil {
			printer.Fprintf(&hosts, " load %.2f", *h.Load)
		}
		if h.Processors != nil {
			printer.Fprintf(&hosts, " on %d processors", *h.Processors)
		}
	}
	if more := len(s.hosts) - most; more > 0 {
		printer.Fprintf(&hosts, ", and %d more hosts", more)
	}
	title := "execd top - " + s.at.Format(time.TimeOnly) + hosts.String()
	n := s.counts()
	tasks := fmt.Sprintf("%d running, %d pending", n.running, n.pending)
	if n.held > 0 {
		tasks += fmt.Sprintf(", %d on hold", n.held)
	}
	if n.failed > 0 {
		tasks += fmt.Sprintf(", %d in error state", n.failed)
	}
	const label = 8
	wide := max(v.width-label, 0)
	slots, memory := s.slots(), s.memory()
	lines := []line{
		{{0, v.width, false, title, strong}},
		{{0, label, false, "Tasks", plain}, {label, wide, false, tasks, plain}},
		{{0, label, false, "Slots", plain}, {label, wide, false, bar(slots) + fmt.Sprintf(" %.0f of %.0f in use", slots.used, slots.total), plain}},
	}
	if memory.total > 0 {
		lines = append(lines, line{{0, label, false, "Memory", plain}, {label, wide, false, bar(memory) + " " + size(memory.used) + " of " + size(memory.total) + " in use", plain}})
	}
	if gpus, ok := s.gpus(); ok {
		lines = append(lines, line{{0, label, false, "GPUs", plain}, {label, wide, false, bar(gpus) + fmt.Sprintf(" %.0f of %.0f in use", gpus.used, gpus.total), plain}})
	}
	return lines
}

// bar returns a bar of fixed width.
func bar(a amount) string {
	const width = 20
	n := 0
	if a.total > 0 {
		n = min(max(int(math.Round(a.used/a.total*width)), 0), width)
	}
	return "[" + strings.Repeat("#", n) + strings.Repeat("-", width-n) + "]"
}

// size formats a number of bytes as Grid Engine does, with one decimal.
func size(bytes float64) string {
	units, i := "KMGTPE", -1
	for bytes >= 1024 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	if i < 0 {
		return strconv.FormatFloat(bytes, 'f', 0, 64)
	}
	return strconv.FormatFloat(bytes, 'f', 1, 64) + units[i:i+1]
}

// duration formats seconds in the two largest units, in at most seven characters up to 999 days.
func duration(s int64) string {
	s = max(s, 0)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// columns calls each for the columns that fit into a width, with their places.
func (v *view) columns(width int, each func(c column, at span)) {
	_, gpus := v.shown.gpus()
	x := 0
	for i := range cells {
		c := column(i) + 1
		if c == gpusColumn && !gpus {
			continue
		}
		w := cells[i].width
		if width >= wideScreen {
			w = cells[i].wide
		}
		if c == placeColumn {
			w = width - x
		}
		if w = min(w, width-x); w <= 0 {
			return
		}
		each(c, span{x: x, width: w, right: cells[i].right})
		x += w + 1
	}
}

// heads returns the line with the names of the columns. The one by which the jobs are sorted is marked.
func (v *view) heads(width int) line {
	if v.shown == nil {
		return nil
	}
	l := line{{0, width, false, "", heading}}
	v.columns(width, func(c column, at span) {
		at.text, at.style = cells[c-1].head, heading
		if c == v.sort {
			at.text += "*"
		}
		l = append(l, at)
	})
	return l
}

// row returns the line of a job.
func (v *view) row(j *job, width int) (l line) {
	v.columns(width, func(c column, at span) {
		at.text = v.value(j, c)
		if c == stateColumn {
			at.style = stateStyles[j.Condition()]
		}
		l = append(l, at)
	})
	return l
}

// longestText is the maximum length of a name in characters of Unicode, of which many may share one
// place on the screen.
const longestText = 256

// value returns the text of a job in a column.
func (v *view) value(j *job, c column) string {
	text := func(s string) string {
		if r := []rune(s); len(r) > longestText {
			s = string(r[:longestText])
		}
		return printable.String(s)
	}
	switch c {
	case jobColumn:
		return strconv.Itoa(j.ID)
	case nameColumn:
		return text(j.Name)
	case userColumn:
		return text(j.Owner)
	case stateColumn:
		return strings.Join(j.States, ", ")
	case timeColumn:
		return duration(v.shown.at.Unix() - since(j))
	case slotsColumn:
		return strconv.Itoa(j.Slots)
	case gpusColumn:
		return strconv.Itoa(j.gpus)
	case cpuColumn:
		if j.part < 0 {
			return "-"
		}
		return strconv.FormatFloat(j.part*100, 'f', 0, 64) + "%"
	case memoryColumn:
		if j.memory < 0 {
			return "-"
		}
		return size(j.memory)
	}
	place := text(j.Where)
	if g := j.Progress; g != nil && g.Total > 0 {
		place = strings.TrimSpace(place + fmt.Sprintf(" %d of %d tasks done", g.Done, g.Total))
	}
	if len(j.Why) > 0 {
		if place != "" {
			place += "; "
		}
		place += "waits for " + text(strings.Join(j.Why, ", "))
	}
	return place
}

// stateStyles are the styles of the states of jobs.
var stateStyles = map[joblist.Condition]style{joblist.Waiting: waiting, joblist.Running: good, joblist.Failed: bad}

// status returns the last line of the screen.
func (v *view) status(rows int) line {
	whole := func(text string, s style) line { return line{{0, v.width, false, text, s}} }
	switch {
	case v.asking != nil:
		return whole(v.asking.question(), bad)
	case v.typing:
		return whole("Filter: "+printable.String(v.filter)+"_  (Enter: keep, Esc: show all)", strong)
	case v.problem != "":
		return whole("No answer from the daemon since "+v.since.Format(time.TimeOnly)+", trying again: "+v.problem, bad)
	case v.message != "":
		return whole(v.message, strong)
	case v.shown == nil:
		return whole("Waiting for the daemon", plain)
	}
	text := "?: help  q: quit"
	all := len(v.shown.jobs)
	switch {
	case rows < all:
		text += fmt.Sprintf("   %d of %d jobs", rows, all)
	case all == 1:
		text += "   1 job"
	default:
		text += fmt.Sprintf("   %d jobs", all)
	}
	if v.mine {
		text += " of " + printable.String(v.user)
	}
	switch v.only {
	case onlyRunning:
		text += ", only running ones"
	case onlyPending:
		text += ", only pending ones"
	}
	if v.filter != "" {
		text += ", filter " + printable.String(v.filter)
	}
	if v.reverse {
		text += ", reversed"
	}
	return whole(text, weak)
}

// keysText lists the keys.
const keysText = `Keys of execd top

  Up, Down, j, k     select a job
  Page Up, Page Down, Home, End
                     select a job further away
  <, >               sort by another column; * marks it
  R                  reverse the order
  /                  filter: show only jobs with a text
  Esc                remove the filter
  t                  show all, running or pending jobs
  u                  show the jobs of all users, or of one

  d                  delete the selected job (qdel)
  h, r               hold it, release it (qhold, qrls)
  s, c               suspend it, continue it (qmod -sj, -usj)
                     y confirms, any other key cancels

  Space              update now
  Ctrl-L             draw the screen again
  ?                  this list
  q, Ctrl-C          quit
`

// helpFrame returns the list of keys.
func (v *view) helpFrame() (lines []line) {
	for text := range strings.Lines(keysText) {
		lines = append(lines, line{{0, v.width, false, strings.TrimSuffix(text, "\n"), plain}})
	}
	for len(lines) < v.height {
		lines = append(lines, nil)
	}
	lines = lines[:v.height]
	lines[v.height-1] = line{{0, v.width, false, "Press any key to return", weak}}
	return lines
}

// fit returns the text of a span, cut to its width, and the column where it begins. The width of wide
// characters counts.
func (s *span) fit() (text string, x int) {
	text = s.text
	if len(text) > s.width || displaywidth.String(text) > s.width { // a text is never wider than it is long
		text = displaywidth.TruncateString(text, s.width, strings.Repeat(".", min(max(s.width-1, 0), len("..."))))
	}
	x = s.x
	if s.right {
		x += max(s.width-displaywidth.String(text), 0)
	}
	return text, x
}

// text returns lines for a printer.
func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		at := 0
		for i := range l {
			text, x := l[i].fit()
			if text == "" {
				continue
			}
			b.WriteString(strings.Repeat(" ", max(x-at, 0)))
			b.WriteString(text)
			at = x + displaywidth.String(text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
