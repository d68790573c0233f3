package qacct

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// key holds the common values of the records in one row of a summary. Fields that are not columns
// of the summary are empty.
type key struct {
	host, queue, group, owner, project, department, pe string
	slots, reservation                                 int
	account                                            string
}

// usage is a sum over records. It adds the wall-clock time in whole seconds, as the original does.
type usage struct {
	records, wallclock int64
	utime, stime, cpu  float64
	memory, io, iow    float64
}

func (u *usage) add(r entry) {
	u.records++
	u.wallclock += r.wallclock
	u.utime += r.Usage.UserTime
	u.stime += r.Usage.SystemTime
	u.cpu += r.Usage.CPU
	u.memory += r.Usage.Mem
	u.io += r.Usage.IO
	u.iow += r.Usage.IOWait
}

type row struct {
	key
	usage
}

// column is a possible column of a summary.
type column struct {
	title  string
	number bool
	given  bool
	exact  string // the value of all rows; empty if unknown
	open   bool   // rows have different values
	of     func(*key) string
	json   func(*jsonRow, *key)
}

const (
	numberWidth  = 5
	accountTitle = "ACCOUNT"
)

func columns(s *settings) []column {
	text := func(title string, c choice, of func(*key) *string, to func(*jsonRow) **string) column {
		return column{
			title: title, given: c.given, exact: printable.String(c.value), open: c.open,
			of:   func(k *key) string { return printable.String(*of(k)) },
			json: func(x *jsonRow, k *key) { *to(x) = of(k) },
		}
	}
	numeric := func(title string, n number, of func(*key) *int, to func(*jsonRow) **int) column {
		return column{
			title: title, number: true, given: n.given, open: n.open,
			of:   func(k *key) string { return fmt.Sprintf("%*d", numberWidth, *of(k)) },
			json: func(x *jsonRow, k *key) { *to(x) = of(k) },
		}
	}
	host, queue := s.host, s.queue
	if queue.exact { // for a pattern, matching instances are shown host by host
		queue = choice{given: true, open: true}
		host.given = true
	}
	all := []column{
		text("HOST", host, func(k *key) *string { return &k.host }, func(x *jsonRow) **string { return &x.Host }),
		text("CLUSTER QUEUE", queue, func(k *key) *string { return &k.queue }, func(x *jsonRow) **string { return &x.Queue }),
		text("GROUP", s.group, func(k *key) *string { return &k.group }, func(x *jsonRow) **string { return &x.Group }),
		text("OWNER", s.owner, func(k *key) *string { return &k.owner }, func(x *jsonRow) **string { return &x.Owner }),
		text("PROJECT", s.project, func(k *key) *string { return &k.project }, func(x *jsonRow) **string { return &x.Project }),
		text("DEPARTMENT", s.department, func(k *key) *string { return &k.department }, func(x *jsonRow) **string { return &x.Department }),
		text("PE", s.pe, func(k *key) *string { return &k.pe }, func(x *jsonRow) **string { return &x.PE }),
		numeric("SLOTS", s.slots, func(k *key) *int { return &k.slots }, func(x *jsonRow) **int { return &x.Slots }),
		numeric("AR", s.reservation, func(k *key) *int { return &k.reservation }, func(x *jsonRow) **int { return &x.Reservation }),
		text(accountTitle, s.account, func(k *key) *string { return &k.account }, func(x *jsonRow) **string { return &x.Account }),
	}
	return slices.DeleteFunc(all, func(c column) bool { return !c.given })
}

// summary adds up records: all of them or, if a column is open, the records of each row.
type summary struct {
	s       *settings
	columns []column
	lists   bool
	rows    map[key]*row
	order   []*row // in the order of the first record
	total   row
}

func newSummary(s *settings) *summary {
	m := &summary{s: s, columns: columns(s), rows: map[key]*row{}}
	m.lists = slices.ContainsFunc(m.columns, func(c column) bool { return c.open })
	m.total.key = key{
		host: s.host.value, queue: s.queue.value, group: s.group.value, owner: s.owner.value, project: s.project.value,
		department: s.department.value, pe: s.pe.value, slots: int(s.slots.value), reservation: int(s.reservation.value), account: s.account.value,
	}
	return m
}

func (m *summary) add(r entry) {
	if m.total.records == 0 && m.s.host.exact {
		m.total.host = r.Host // the name in the record, not the requested one
	}
	m.total.add(r)
	if !m.lists {
		return
	}
	s := m.s
	k := key{}
	set := func(given bool, to *string, value string) {
		if given {
			*to = value
		}
	}
	// Names that differ only in case are the same host; the summary shows the first spelling.
	set(s.host.given || s.queue.exact, &k.host, strings.ToLower(r.Host))
	set(s.queue.given, &k.queue, r.Queue)
	set(s.group.given, &k.group, r.Group)
	set(s.owner.given, &k.owner, r.Owner)
	set(s.project.given, &k.project, orNone(r.Project))
	set(s.department.given, &k.department, r.Department)
	set(s.pe.given, &k.pe, orNone(r.PE))
	set(s.account.given, &k.account, r.Account)
	if s.slots.given {
		k.slots = r.Slots
	}
	if s.reservation.given {
		k.reservation = r.Reservation
	}
	at := m.rows[k]
	if at == nil {
		at = &row{key: k}
		set(k.host != "", &at.host, r.Host)
		m.rows[k] = at
		m.order = append(m.order, at)
	}
	at.add(r)
}

// all returns the rows in the order of the output: by column, except for the account. Among rows
// that differ only in the account, the last one found comes first (tested).
func (m *summary) all() []*row {
	if !m.lists {
		return []*row{&m.total}
	}
	rows := slices.Clone(m.order)
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b *row) int {
		return cmp.Or(
			strings.Compare(a.host, b.host), strings.Compare(a.queue, b.queue), strings.Compare(a.group, b.group),
			strings.Compare(a.owner, b.owner), strings.Compare(a.project, b.project), strings.Compare(a.department, b.department),
			strings.Compare(a.pe, b.pe), cmp.Compare(a.slots, b.slots), cmp.Compare(a.reservation, b.reservation),
		)
	})
	return rows
}

// print prints the summary. If the total wall-clock time is less than a second, it prints no rows
// (tested).
func (m *summary) print(w *bufio.Writer) {
	rows := m.all()
	if len(m.columns) == 0 {
		printer.Fprintf(w, "Total System Usage\n")
	}
	// A number is followed by a blank only if there are rows that may differ (tested).
	widths := make([]int, len(m.columns))
	total := 0
	for i, c := range m.columns {
		n := max(len(c.title), len(c.exact))
		if c.number {
			n = numberWidth
		}
		for _, r := range rows {
			if c.title != accountTitle { // the account column has a fixed width (tested)
				n = max(n, len(printable.String(c.of(&r.key))))
			}
		}
		if !c.number || m.lists && len(rows) > 0 {
			n++
		}
		widths[i] = n
		total += n
		printer.Fprintf(w, "%-*s", n, c.title)
	}
	sums, _ := printer.Fprintf(w, "%13s %13s %13s %13s %18s %18s %18s\n", "WALLCLOCK", "UTIME", "STIME", "CPU", "MEMORY", "IO", "IOW")
	printer.Fprintf(w, "%s\n", strings.Repeat("=", total+sums-1))
	if m.total.wallclock == 0 {
		return
	}
	for _, r := range rows {
		for i, c := range m.columns {
			printer.Fprintf(w, "%-*s", widths[i], c.of(&r.key))
		}
		u := &r.usage
		printer.Fprintf(w, "%13d %13.3f %13.3f %13.3f %18.3f %18.3f %18.3f\n", u.wallclock, u.utime, u.stime, u.cpu, u.memory, u.io, u.iow)
	}
}

// jsonRow is a row of a summary. Units are seconds, GB times seconds for memory, and GB for io.
type jsonRow struct {
	Host        *string `json:"hostname,omitempty"`
	Queue       *string `json:"qname,omitempty"`
	Group       *string `json:"group,omitempty"`
	Owner       *string `json:"owner,omitempty"`
	Project     *string `json:"project,omitempty"`
	Department  *string `json:"department,omitempty"`
	PE          *string `json:"granted_pe,omitempty"`
	Slots       *int    `json:"slots,omitempty"`
	Reservation *int    `json:"arid,omitempty"`
	Account     *string `json:"account,omitempty"`
	Records     int64   `json:"records"`
	Wallclock   int64   `json:"ru_wallclock"`
	UserTime    float64 `json:"ru_utime"`
	SystemTime  float64 `json:"ru_stime"`
	CPU         float64 `json:"cpu"`
	Memory      float64 `json:"mem"`
	IO          float64 `json:"io"`
	IOWait      float64 `json:"iow"`
}

// printJSON prints all rows, even if the total wall-clock time is less than a second.
func (m *summary) printJSON(w io.Writer) error {
	list := []jsonRow{}
	for _, r := range m.all() {
		u := &r.usage
		x := jsonRow{
			Records: u.records, Wallclock: u.wallclock, UserTime: u.utime, SystemTime: u.stime, CPU: u.cpu,
			Memory: u.memory, IO: u.io, IOWait: u.iow,
		}
		for _, c := range m.columns {
			c.json(&x, &r.key)
		}
		list = append(list, x)
	}
	text, err := json.MarshalIndent(struct {
		Usage []jsonRow `json:"usage"`
	}{list}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.AppendJSON(nil, text), '\n'))
	return err
}
