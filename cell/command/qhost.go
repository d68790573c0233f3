package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/expression"
)

// qhost is qhost(1).
var qhost = command{
	name: "qhost", usage: "[options]", indent: 2, column: 29, complaint: complaint{prefix: "error: ", usage: true},
	run: (*call).qhost, needs: needsHome(hostOptions), options: []option{
		{name: "-F", args: "[resource_attribute]", optional: anyNumber, help: "show (selected) resources"},
		{name: "-h", args: "hostlist", values: 1, optional: anyNumber, help: "display only selected hosts"},
		{name: "-help", help: "print this help"},
		{name: "-j", help: "display jobs hosted by host"},
		{name: "-json", help: "display the information as JSON"},
		{name: "-l", args: "attr=val,...", values: 1, optional: anyNumber, help: "request the given resources"},
		{name: "-ncb", help: "suppress host topology based information"},
		{name: "-q", help: "display queues hosted by host"},
		{name: "-u", args: "user[,user,...]", values: 1, optional: anyNumber, help: "show only jobs for user"},
		{name: "-xml", help: "display the information in XML format"},
	},
}

// hostOptions is the name of the files with default options of qhost (qhost(1)).
const hostOptions = "sge_qhost"

// optionLine parses the default options and the command line of a command without operands. ok is
// false if there is nothing to do, after -help or an error.
func (x *call) optionLine(defaults string) (l *line, ok bool) {
	l, err := x.withDefaults(defaults)
	return l, x.usable(l, err) && x.noOperands(l)
}

func (x *call) qhost() {
	l, ok := x.optionLine(hostOptions)
	if !ok {
		return
	}
	hosts, ok := x.chosenHosts(l)
	if !ok {
		return
	}
	o := qstat.HostOptions{
		Resources: l.has("-F"), Selected: len(l.lists("-F")) > 0, Queues: l.has("-q"), Jobs: l.has("-j") || l.has("-u"), NoTopology: l.has("-ncb"), Zone: x.zone,
	}
	v := view.New(x.cell, x.now)
	resources := view.None
	if o.Resources {
		resources = x.resources(l.lists("-F"))
	}
	c := qstat.Cell{Hosts: slices.DeleteFunc(v.Hosts(resources), func(h qstat.Host) bool { return !hosts(h.Name) })}
	if o.Queues || o.Jobs || l.has("-json") {
		c.Queues = v.Queues(view.None)
		x.inListOrder(c.Queues)
	}
	if o.Jobs {
		s := statSelection{call: x, users: l.lists("-u")}
		if s.users == nil {
			s.users = []string{"*"}
		}
		c.Jobs = s.jobs(v, nil)
	}
	switch {
	case l.has("-json"):
		d := c.Document()
		if !o.Queues {
			d.Queues = nil
		}
		if !o.Jobs {
			d.Jobs = nil
		}
		x.json(d)
	case l.has("-xml"):
		x.print(c.AppendHostsXML(nil, o))
	default:
		x.print(c.AppendHosts(nil, o))
	}
}

// sameHost reports whether a name of -h, which may be a pattern (tested), matches a host.
func sameHost(name, host string) bool {
	if !strings.ContainsAny(name, "*?[") {
		return qconf.SameHost(name, host)
	}
	e, err := expression.Compile(expression.String, name)
	return err == nil && e.Match(host)
}

// chosenHosts returns the hosts that -h and -l select.
func (x *call) chosenHosts(l *line) (has func(string) bool, ok bool) {
	names := l.lists("-h")
	model := x.cell.Model()
	for _, n := range names {
		if strings.ContainsAny(n, "*?[") {
			continue
		}
		if _, ok := model.Host(n); !ok || n == qconf.GlobalHost {
			x.stderr.lines(x.self.text())
			x.fail(1, "error: can't resolve hostname %q", n)
			return nil, false
		}
	}
	texts := l.all("-l")
	w, problem, ok := x.wanted(texts)
	if !ok {
		x.fail(1, "error: %s", problem)
		x.suggest(problem)
		return nil, false
	}
	o := x.cell.State().Observe(x.now)
	return func(host string) bool {
		if names != nil && host != qconf.GlobalHost && !slices.ContainsFunc(names, func(n string) bool { return sameHost(n, host) }) {
			return false
		}
		if texts == nil {
			return true
		}
		id, ok := model.Host(host)
		return ok && host != qconf.GlobalHost && o.OfferedBy(w, id)
	}, true
}
