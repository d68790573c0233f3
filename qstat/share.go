package qstat

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"time"
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
	// Decayed are the usages that count, LongTerm those that do not decay.
	Decayed  Usage `json:"decayed"`
	LongTerm Usage `json:"longTerm"`
}

// ShareOptions are those of sge_share_mon(1). The zero value is the command's default.
type ShareOptions struct {
	Header bool // -h
	Names  bool // -n: name=value
	Dates  bool // -t: times as dates
	// Fields are the columns in their order, by the names of Header; nil are all of them.
	// A name that is none is passed over, and without any column nothing is shown (-f).
	Fields []string
	// Text is how names are shown, a format of printf(3) with one %s; "" is "%s" (-s).
	Text string
	// Delimiters between columns, nodes and collections: -d, -l and -r; a tab and line
	// breaks if empty.
	Column, Line, Record string
	Zone                 *time.Location // of dates; nil is UTC
}

// shareColumn is a column of sge_share_mon.
type shareColumn struct {
	name   string
	append func(dst []byte, r *ShareRow, o *ShareOptions) []byte
}

var shareColumns = []shareColumn{
	{"curr_time", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendTime(dst, r.Now) }},
	{"usage_time", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendTime(dst, r.UsageTime) }},
	{"node_name", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendText(dst, r.Node) }},
	{"user_name", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendText(dst, r.User) }},
	{"project_name", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendText(dst, r.Project) }},
	{"shares", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendInt(dst, r.Shares, 0) }},
	{"job_count", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendInt(dst, r.Jobs, 0) }},
	{"level%", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Level, 0, 6) }},
	{"total%", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Total, 0, 6) }},
	{"long_target_share", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.LongTarget, 0, 6) }},
	{"short_target_share", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.ShortTarget, 0, 6) }},
	{"actual_share", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Actual, 0, 6) }},
	{"usage", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Usage, 0, 6) }},
	{"cpu", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Decayed.CPU, 0, 6) }},
	{"mem", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Decayed.Memory, 0, 6) }},
	{"io", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.Decayed.IO, 0, 6) }},
	{"ltcpu", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.LongTerm.CPU, 0, 6) }},
	{"ltmem", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte {
		return appendFixed(dst, r.LongTerm.Memory, 0, 6)
	}},
	{"ltio", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return appendFixed(dst, r.LongTerm.IO, 0, 6) }},
}

func (o *ShareOptions) appendTime(dst []byte, at int64) []byte {
	if !o.Dates || at == 0 {
		return strconv.AppendInt(dst, at, 10)
	}
	return time.Unix(at, 0).In(o.Zone).AppendFormat(dst, time.ANSIC)
}

// columns are those that are asked for.
func (o *ShareOptions) columns() []shareColumn {
	if o.Fields == nil {
		return shareColumns
	}
	var list []shareColumn
	for _, name := range o.Fields {
		if i := slices.IndexFunc(shareColumns, func(c shareColumn) bool { return c.name == name }); i >= 0 {
			list = append(list, shareColumns[i])
		}
	}
	return list
}

// textFormat is a format with one %s: what is in front of it, the minus, the width, the
// precision, and what is behind it.
var textFormat = regexp.MustCompile(`^([^%]*)%(-?)(\d{0,4})(?:\.(\d{0,4}))?s([^%]*)$`)

// appendText appends a name in the format, or as it is where that is none.
func (o *ShareOptions) appendText(dst []byte, s string) []byte {
	if o.Text == "" {
		return append(dst, s...)
	}
	m := textFormat.FindStringSubmatch(o.Text)
	if m == nil {
		return append(dst, s...)
	}
	if most, err := strconv.Atoi(m[4]); err == nil {
		s = s[:min(len(s), most)]
	}
	width, _ := strconv.Atoi(m[3])
	dst = append(dst, m[1]...)
	if m[2] == "-" {
		dst = appendLeft(dst, s, width)
	} else {
		dst = appendRight(dst, s, width)
	}
	return append(dst, m[5]...)
}

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
	if o.Header {
		for i := range columns {
			dst = append(append(dst, columns[i].name...), o.Column...)
		}
		dst = append(append(dst, o.Line...), o.Record...)
	}
	for i, rows := range collections {
		if i > 0 {
			dst = append(dst, o.Record...)
		}
		for j := range rows {
			for k := range columns {
				if o.Names {
					dst = append(append(dst, columns[k].name...), '=')
				}
				dst = append(columns[k].append(dst, &rows[j], &o), o.Column...)
			}
			dst = append(dst, o.Line...)
		}
	}
	return dst
}
