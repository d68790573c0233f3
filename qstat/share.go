package qstat

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// ShareRow is a node of the share tree as sge_share_mon(1) shows it.
type ShareRow struct {
	Now       int64  `json:"now"`       // seconds since the epoch
	UsageTime int64  `json:"usageTime"` // when the usage was brought up to date; 0 for never
	Node      string `json:"node"`      // its path: /group/user
	User      string `json:"user,omitempty"`
	Project   string `json:"project,omitempty"`
	Shares    int    `json:"shares"`
	Jobs      int    `json:"jobs"`
	// Level and Total are the parts of the shares, among the siblings and of the
	// whole tree; 0 to 1.
	Level       float64 `json:"level"`
	Total       float64 `json:"total"`
	LongTarget  float64 `json:"longTarget"`
	ShortTarget float64 `json:"shortTarget"`
	Actual      float64 `json:"actual"`
	Usage       float64 `json:"usage"` // combined by the weights of usage
	// Decayed holds the decayed usage, which counts for the share, and LongTerm the usage without
	// decay.
	Decayed  Usage `json:"decayed"`
	LongTerm Usage `json:"longTerm"`
}

// ShareOptions are the options of sge_share_mon(1). The zero value is the command's default.
type ShareOptions struct {
	Header bool // -h
	Names  bool // -n: name=value
	Dates  bool // -t: times as dates
	// Fields are the columns in their order, by the names of Header; nil are all of them.
	// A name that is none is skipped, and without any column nothing is shown (-f).
	Fields []string
	// Text is the format of names, a format of printf(3) with one %s; "" is "%s" (-s).
	Text string
	// Delimiters between columns, nodes and collections: -d, -l and -r; a tab and line
	// breaks if empty.
	Column, Line, Record string
	Zone                 *time.Location // of dates; nil is UTC
}

// shareColumn is a column of sge_share_mon.
type shareColumn struct {
	name label
	add  func(p *page, r *ShareRow, o *ShareOptions)
}

var shareColumns = []shareColumn{
	{"curr_time", func(p *page, r *ShareRow, o *ShareOptions) { o.time(p, r.Now) }},
	{"usage_time", func(p *page, r *ShareRow, o *ShareOptions) { o.time(p, r.UsageTime) }},
	{"node_name", func(p *page, r *ShareRow, o *ShareOptions) { o.name(p, r.Node) }},
	{"user_name", func(p *page, r *ShareRow, o *ShareOptions) { o.name(p, r.User) }},
	{"project_name", func(p *page, r *ShareRow, o *ShareOptions) { o.name(p, r.Project) }},
	{"shares", func(p *page, r *ShareRow, _ *ShareOptions) { p.int(r.Shares, 0) }},
	{"job_count", func(p *page, r *ShareRow, _ *ShareOptions) { p.int(r.Jobs, 0) }},
	{"level%", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Level, 0, 6) }},
	{"total%", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Total, 0, 6) }},
	{"long_target_share", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.LongTarget, 0, 6) }},
	{"short_target_share", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.ShortTarget, 0, 6) }},
	{"actual_share", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Actual, 0, 6) }},
	{"usage", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Usage, 0, 6) }},
	{"cpu", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Decayed.CPU, 0, 6) }},
	{"mem", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Decayed.Memory, 0, 6) }},
	{"io", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.Decayed.IO, 0, 6) }},
	{"ltcpu", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.LongTerm.CPU, 0, 6) }},
	{"ltmem", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.LongTerm.Memory, 0, 6) }},
	{"ltio", func(p *page, r *ShareRow, _ *ShareOptions) { p.fixed(r.LongTerm.IO, 0, 6) }},
}

func (o *ShareOptions) time(p *page, at int64) {
	if !o.Dates || at == 0 {
		p.number(at)
		return
	}
	p.date(at, o.Zone, time.ANSIC)
}

// columns returns the requested columns.
func (o *ShareOptions) columns() []shareColumn {
	if o.Fields == nil {
		return shareColumns
	}
	var list []shareColumn
	for _, name := range o.Fields {
		if i := slices.IndexFunc(shareColumns, func(c shareColumn) bool { return string(c.name) == name }); i >= 0 {
			list = append(list, shareColumns[i])
		}
	}
	return list
}

// textFormat matches a format with one %s: the text before it, the minus, the width, the precision,
// and the text after it.
var textFormat = regexp.MustCompile(`^([^%]*)%(-?)(\d{0,4})(?:\.(\d{0,4}))?s([^%]*)$`)

// name adds a name in the format, or unchanged if the format is invalid.
func (o *ShareOptions) name(p *page, s string) {
	m := textFormat.FindStringSubmatch(o.Text)
	if m == nil {
		p.value(s)
		return
	}
	s = printable.String(s)
	if most, err := strconv.Atoi(m[4]); err == nil {
		s = printable.Cut(s, most)
	}
	width, _ := strconv.Atoi(m[3])
	p.delimiter(m[1])
	if m[2] != "-" {
		p.blanks(width - len(s))
	}
	begin := len(p.text)
	p.text = append(p.text, s...)
	if m[2] == "-" {
		p.fill(begin, width)
	}
	p.delimiter(m[5])
}

// delimiter adds the separator that the user of sge_share_mon chose. It is not escaped, because the
// same user reads it.
func (p *page) delimiter(s string) { p.text = append(p.text, s...) }

// AppendShares appends collections as sge_share_mon prints them, the nodes in the order
// in which they are given.
func AppendShares(dst []byte, collections [][]ShareRow, o ShareOptions) []byte {
	o.Column, o.Line, o.Record = cmp.Or(o.Column, "\t"), cmp.Or(o.Line, "\n"), cmp.Or(o.Record, "\n")
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	columns := o.columns()
	if len(columns) == 0 {
		return dst
	}
	p := page{dst}
	if o.Header {
		for i := range columns {
			p.put(columns[i].name)
			p.delimiter(o.Column)
		}
		p.delimiter(o.Line)
		p.delimiter(o.Record)
	}
	for i, rows := range collections {
		if i > 0 {
			p.delimiter(o.Record)
		}
		for j := range rows {
			for k := range columns {
				if o.Names {
					p.put(columns[k].name)
					p.put("=")
				}
				columns[k].add(&p, &rows[j], &o)
				p.delimiter(o.Column)
			}
			p.delimiter(o.Line)
		}
	}
	return p.text
}
