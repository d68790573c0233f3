package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
)

// qstatCommand is qstat(1).
var qstatCommand = command{name: "qstat", usage: "[options]", indent: 8, column: 43, complaint: complaint{usage: true}, run: (*call).qstat, needs: needsHome(statOptions), options: []option{
	{name: "-ext", help: "view additional attributes"},
	{name: "-explain", args: "a|c|A|E", values: 1, optional: anyNumber, help: "show reason for queue c(onfiguration ambiguous), a(larm), suspend A(larm), E(rror) state"},
	{name: "-f", help: "full output"},
	{name: "-F", args: "[resource_attributes]", optional: anyNumber, help: "full output and show (selected) resources of queue(s)"},
	{name: "-g", args: "{c|d|t}", values: 1, optional: anyNumber, help: "display cluster queue summary (c), all job-array tasks (d), all parallel job tasks (t)"},
	{name: "-help", help: "print this help"},
	{name: "-j", args: "[job_identifier_list]", optional: anyNumber, help: "show scheduler job information"},
	{name: "-json", help: "display the information as JSON"},
	{name: "-l", args: "resource_list", values: 1, optional: anyNumber, help: "request the given resources"},
	{name: "-ne", help: "hide empty queues"},
	{name: "-ncb", help: "suppress additional binding specific parameters"},
	{name: "-pe", args: "pe_list", values: 1, optional: anyNumber, help: "select only queues with one of these parallel environments"},
	{name: "-q", args: "wc_queue_list", values: 1, optional: anyNumber, help: "print information on given queue"},
	{name: "-qs", args: "{a|c|d|o|s|u|A|C|D|E|S}", values: 1, optional: anyNumber, help: "selects queues which are in the given state(s)"},
	{name: "-r", help: "show requested resources of job(s)"},
	{name: "-s", args: "{p|r|s|z|hu|ho|hs|hd|hj|ha|h|a}", values: 1, optional: anyNumber, help: "show pending, running, suspended, zombie jobs,\njobs with a user/operator/system/array-dependency hold,\njobs with a start time in future or any combination only.\nh is an abbreviation for huhohshdhjha\na is an abbreviation for prsh"},
	{name: "-t", help: "show task information (implicitly -g t)"},
	{name: "-u", args: "user_list", values: 1, optional: anyNumber, help: "view jobs of this user list"},
	{name: "-U", args: "user_list", values: 1, optional: anyNumber, help: "select only queues where these users have access"},
	{name: "-urg", help: "display job urgency information"},
	{name: "-pri", help: "display job priority information"},
	{name: "-xml", help: "display the information in XML format"},
}}

// statOptions is the name of the files with default options of qstat (sge_qstat(5)).
const statOptions = "sge_qstat"

// needsHome finds a file of default options in the home directory.
func needsHome(name string) func(*Input, *wanted) {
	return func(in *Input, w *wanted) {
		if in.Home != "" {
			w.want(in, inDirectory(in.Home, "."+name), false)
		}
	}
}

// withDefaults parses the default options of the cluster and of the user, and then the command line,
// which overrides them. Lines that begin with # are comments.
func (x *call) withDefaults(name string) (*line, error) {
	var words []string
	for _, text := range [][]byte{x.in.Defaults[name], x.in.Files[inDirectory(x.in.Home, "."+name)]} {
		for l := range strings.Lines(string(text)) {
			if l = strings.TrimSpace(l); !strings.HasPrefix(l, "#") {
				words = append(words, strings.Fields(l)...)
			}
		}
	}
	l, err := parse(x.self.all(), append(words, x.in.Args...))
	if err != nil {
		return nil, err
	}
	l.given = oneByOne(l.given)
	for _, g := range l.given {
		if find(x.self.all(), g.name).values == 1 && g.value() == "" {
			return nil, &optionError{word: g.name, empty: true}
		}
	}
	return l, nil
}

// oneByOne returns options with one value each: "-u alice bob" is "-u alice -u bob" (tested).
func oneByOne(all []given) []given {
	var list []given
	for _, g := range all {
		for len(g.values) > 1 {
			list = append(list, given{name: g.name, values: g.values[:1]})
			g.values = g.values[1:]
		}
		list = append(list, g)
	}
	return list
}

// queueWidth returns the width of the column of queue instances (SGE_LONG_QNAMES, qstat(1)), in
// characters. Text that is not a number counts as 0 (tested).
func (x *call) queueWidth() int {
	text, ok := x.in.lookup("SGE_LONG_QNAMES")
	if !ok {
		return 0
	}
	digits := strings.TrimPrefix(text, "-")
	digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
	n, _ := strconv.Atoi(text[:len(text)-len(strings.TrimPrefix(text, "-"))] + digits)
	if n == -1 {
		return n
	}
	return max(n, 1)
}

func (x *call) qstat() {
	l, ok := x.optionLine(statOptions)
	if !ok {
		return
	}
	if list, ok := l.last("-j"); ok {
		x.jobDetails(l, list)
		return
	}
	s, ok := x.statSelection(l)
	if !ok {
		return
	}
	o := qstat.Options{
		Full: l.has("-f"), Resources: l.has("-F"), SkipEmpty: l.has("-ne"), Extended: l.has("-ext"), Urgency: l.has("-urg"),
		Priorities: l.has("-pri"), Subtasks: l.has("-t"), Requests: l.has("-r"), NoBinding: l.has("-ncb"), Zone: x.zone,
		LoadName: x.in.variable("SGE_LOAD_AVG"), QueueWidth: x.queueWidth(),
	}
	o.Explain, _ = l.last("-explain")
	summary := false
	for _, g := range l.given {
		if bad := strings.Trim(g.value(), "cdt+"); g.name == "-g" && bad != "" {
			x.fail(1, "wrong character '%s' for -g option", bad[:1])
			return
		}
		if g.name == "-g" {
			summary = summary || strings.Contains(g.value(), "c")
			o.EachTask = o.EachTask || strings.Contains(g.value(), "d")
			o.EachSlot = o.EachSlot || strings.Contains(g.value(), "t")
		}
	}
	if strings.Trim(o.Explain, "aAcE") != "" {
		x.unknownStates(o.Explain)
		return
	}
	v := view.New(x.cell, x.now)
	resources := view.None
	if l.has("-F") {
		resources = x.resources(l.lists("-F"))
	}
	c := qstat.Cell{Queues: s.queues(v, resources)}
	if len(c.Queues) == 0 && s.nowhere() {
		x.result.Exit = 1
		return
	}
	if len(c.Queues) == 0 {
		s.warnInaccessible()
	}
	if o.LoadName != "" {
		v.ShowLoad(c.Queues, o.LoadName)
	}
	if !summary {
		c.Jobs = s.jobs(v, c.Queues)
	}
	switch {
	case l.has("-json"):
		d := c.Document()
		if summary {
			d = &qstat.Document{Summary: summaries(v, c.Queues)}
		} else if !o.Full && !o.Resources && o.Explain == "" {
			d.Queues, d.Hosts = nil, nil
		}
		x.json(d)
	case summary && l.has("-xml"):
		x.print(qstat.AppendSummaryXML(nil, summaries(v, c.Queues), o))
	case summary:
		x.print(qstat.AppendSummary(nil, summaries(v, c.Queues), o))
	case l.has("-xml"):
		x.print(c.AppendXML(nil, o))
	default:
		x.print(c.AppendText(nil, o))
	}
}

// resources returns the resources that -F names by name or shortcut, and all resources if it names
// none.
func (x *call) resources(names []string) view.Selection {
	if len(names) == 0 {
		return nil
	}
	s := view.Selection{}
	for _, name := range names {
		if c, ok := x.cell.Cluster().Complexes().Find(name); ok && !slices.Contains(s, c.Name) {
			s = append(s, c.Name)
		}
	}
	return s
}

func (x *call) print(text []byte) { x.stdout.view(text) }

func (x *call) json(d *qstat.Document) {
	text, err := d.AppendJSON(nil)
	if err != nil {
		x.fail(1, "%s: %s", x.in.Name, err)
		return
	}
	x.print(text)
}
