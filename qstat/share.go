package qstat

import (
	"cmp"
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
	// Delimiters between columns, nodes and collections: -d, -l and -r; a tab and line
	// breaks if empty.
	Column, Line, Record string
	Zone                 *time.Location // of dates; nil is UTC
}

var shareColumns = [...]struct {
	name   string
	append func(dst []byte, r *ShareRow, o *ShareOptions) []byte
}{
	{"curr_time", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendTime(dst, r.Now) }},
	{"usage_time", func(dst []byte, r *ShareRow, o *ShareOptions) []byte { return o.appendTime(dst, r.UsageTime) }},
	{"node_name", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return append(dst, r.Node...) }},
	{"user_name", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return append(dst, r.User...) }},
	{"project_name", func(dst []byte, r *ShareRow, _ *ShareOptions) []byte { return append(dst, r.Project...) }},
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

// AppendShares appends collections as sge_share_mon prints them, the nodes in the order
// in which they are given.
func AppendShares(dst []byte, collections [][]ShareRow, o ShareOptions) []byte {
	o.Column, o.Line, o.Record = cmp.Or(o.Column, "\t"), cmp.Or(o.Line, "\n"), cmp.Or(o.Record, "\n")
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Header {
		for i := range shareColumns {
			dst = append(append(dst, shareColumns[i].name...), o.Column...)
		}
		dst = append(append(dst, o.Line...), o.Record...)
	}
	for i, rows := range collections {
		if i > 0 {
			dst = append(dst, o.Record...)
		}
		for j := range rows {
			for k := range shareColumns {
				if o.Names {
					dst = append(append(dst, shareColumns[k].name...), '=')
				}
				dst = append(shareColumns[k].append(dst, &rows[j], &o), o.Column...)
			}
			dst = append(dst, o.Line...)
		}
	}
	return dst
}
