package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
)

// shareMonitor is sge_share_mon(1). It prints one collection; the caller repeats it with pauses
// (Collections).
var shareMonitor = command{
	name: "sge_share_mon", usage: "[-cdfhilmnorsux] [node_names ...]", column: 22, complaint: complaint{prefix: "sge_share_mon: ", usage: true},
	run: (*call).shareMonitor, options: []option{
		{name: "-c", args: "count", values: 1, help: "number of collections (default is infinite)"},
		{name: "-d", args: "delimiter", values: 1, help: "delimiter between columns (default is <TAB>)"},
		{name: "-f", args: "field[,field]", values: 1, help: "list of fields to print"},
		{name: "-h", help: "print a header containing the field names"},
		{name: "-help", help: "print this help"},
		{name: "-i", args: "interval", values: 1, help: "collection interval in seconds (default is 15)"},
		{name: "-json", help: "display the information as JSON"},
		{name: "-l", args: "delimiter", values: 1, help: "delimiter between nodes (default is <CR>)"},
		{name: "-m", args: "output_mode", values: 1, help: "output file fopen mode (default is \"w\")"},
		{name: "-n", help: "use name=value format"},
		{name: "-o", args: "output_file", values: 1, help: "output file"},
		{name: "-r", args: "delimiter", values: 1, help: "delimiter between collection records (default is <CR>)"},
		{name: "-s", args: "string_format", values: 1, help: "format of displayed strings (default is %s)"},
		{name: "-t", help: "show formatted times"},
		{name: "-u", help: "show decayed usage (since timestamp) in nodes"},
		{name: "-x", help: "exclude non-leaf nodes"},
	},
}

// mostTogether is how many letters a word may have that are options.
const mostTogether = 64

// letters separates combined one-letter options and their values: -xc1 becomes -x -c 1. Other words
// stay unchanged.
func letters(options []option, args []string) []string {
	var words []string
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return append(words, args[i:]...)
		}
		if len(word) < 2 || word[0] != '-' || len(word) > 2 && find(options, word) != nil {
			words = append(words, word)
			continue
		}
		rest := word[1:]
		for n := 1; rest != ""; n++ {
			o := find(options, "-"+rest[:1])
			if o == nil || n > mostTogether {
				words = append(words, "-"+rest)
				break
			}
			words = append(words, o.name)
			rest = rest[1:]
			if o.values == 1 {
				if rest != "" {
					words = append(words, rest)
				} else if i+1 < len(args) {
					i++
					words = append(words, args[i])
				}
				break
			}
		}
	}
	return words
}

// Collections says how often to run sge_share_mon, and where its output goes.
type Collections struct {
	Count    int   // negative for without end
	Interval int64 // between two, in seconds
	// File is the output file, opened in a mode of fopen(3); "" means standard output.
	File, Mode string
	// Again are the arguments for every collection after the first. Delimiter precedes each of
	// these.
	Again     []string
	Delimiter string
}

// defaultInterval is that of sge_share_mon(1), in seconds.
const defaultInterval = 15

// ShareCollections reads the options of sge_share_mon about repetitions. An invalid command line,
// or one with -help, runs once and prints its error or its help.
func ShareCollections(args []string) Collections {
	once := Collections{Count: 1}
	words := letters(shareMonitor.options, args)
	l, err := parse(shareMonitor.options, words)
	if err != nil || l.has("-help") || wrongNumber(l) != "" {
		return once
	}
	if l.has("-json") && !l.has("-c") {
		return once
	}
	c := Collections{Count: -1, Interval: defaultInterval, Mode: "w", Delimiter: "\n"}
	if text, ok := l.last("-c"); ok {
		c.Count, _ = strconv.Atoi(text)
	}
	if text, ok := l.last("-i"); ok {
		c.Interval, _ = strconv.ParseInt(text, 10, 64)
		c.Interval = max(c.Interval, 1)
	}
	c.File, _ = l.last("-o")
	if text, ok := l.last("-m"); ok {
		c.Mode = text
	}
	if text, ok := l.last("-r"); ok {
		c.Delimiter = text
	}
	for _, g := range l.given {
		if g.name != "-h" {
			c.Again = append(append(c.Again, g.name), g.values...)
		}
	}
	c.Again = append(append(c.Again, "--"), l.operands...)
	return c
}

// maxInterval bounds -i.
const maxInterval = 1 << 31

// wrongNumber returns the error message for an invalid -c or -i, or "".
func wrongNumber(l *line) string {
	if text, ok := l.last("-c"); ok {
		if _, err := strconv.ParseInt(text, 10, 32); err != nil {
			return text + " is not a valid count"
		}
	}
	if text, ok := l.last("-i"); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n > maxInterval {
			return text + " is not a valid interval"
		}
	}
	return ""
}

// wrongLetter prints the error in the options, in the words of getopt(3).
func (x *call) wrongLetter(err error) {
	text := err.Error()
	if e, ok := err.(*optionError); ok { //nolint:errorlint // parse returns no other
		text = fmt.Sprintf("invalid option -- '%s'", e.word[1:2])
		if e.missing {
			text = fmt.Sprintf("option requires an argument -- '%s'", e.word[1:])
		}
	}
	x.fail(1, "sge_share_mon: %s", text)
	x.stderr.lines(x.self.text())
}

func (x *call) shareMonitor() {
	l, err := parse(x.self.all(), letters(x.self.all(), x.in.Args))
	switch {
	case err != nil:
		x.wrongLetter(err)
		return
	case l.has("-help"):
		x.help()
		return
	}
	if text := wrongNumber(l); text != "" {
		x.fail(1, "%s", text)
		x.stderr.lines(x.self.text())
		return
	}
	rows := view.New(x.cell, x.now).Shares()
	if rows == nil {
		x.fail(2, "No share tree")
		return
	}
	if l.has("-x") {
		leaf := func(r qstat.ShareRow) bool {
			return !slices.ContainsFunc(rows, func(o qstat.ShareRow) bool {
				return o.Node != r.Node && strings.HasPrefix(o.Node, strings.TrimSuffix(r.Node, "/")+"/")
			})
		}
		rows = slices.DeleteFunc(slices.Clone(rows), func(r qstat.ShareRow) bool { return !leaf(r) })
	}
	if len(l.operands) > 0 {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r qstat.ShareRow) bool { return !slices.Contains(l.operands, r.Node) })
	}
	if l.has("-json") {
		x.json(&qstat.Document{Shares: rows})
		return
	}
	o := qstat.ShareOptions{Header: l.has("-h"), Names: l.has("-n"), Dates: l.has("-t"), Zone: x.zone}
	if l.has("-f") {
		o.Fields = append([]string{}, l.lists("-f")...)
	}
	o.Text, _ = l.last("-s")
	o.Column, _ = l.last("-d")
	o.Line, _ = l.last("-l")
	o.Record, _ = l.last("-r")
	x.print(qstat.AppendShares(nil, [][]qstat.ShareRow{rows}, o))
}
