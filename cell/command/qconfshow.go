package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
)

// showActions returns the options that show several objects, or one object in a special form.
func showActions() []action {
	group := option{args: "group", values: 1}
	named := func(name, help string, o option) option {
		o.name, o.help = name, help
		return o
	}
	return []action{
		{option: named("-shgrp_tree", "show host group and used hostgroups as tree", group), run: (*call).showGroupTree},
		{option: named("-shgrp_resolved", "show host group with resolved hostlist", group), run: (*call).showGroupHosts},
		{option: option{name: "-sds", help: "show detached settings"}, run: (*call).showDetached},
		{option: option{name: "-secl", help: "show event client list"}, run: (*call).showClients},
		{option: option{name: "-sss", help: "show scheduler status"}, run: func(x *call, _ *given) { x.say("%s", x.hostName()) }},
		{
			option: option{name: "-sobjl", args: "obj_nm2 attr_nm val", values: 3, help: "show objects which match the given value"},
			run:    (*call).showMatching,
		},
	}
}

// group returns the host group that an option names. If there is none, it prints an error and
// returns nil.
func (x *call) group(name string) *qconf.HostGroup {
	g := x.cluster().HostGroups().Group(name)
	if g == nil {
		x.fail(1, groupKind.unknown, name)
	}
	return g
}

func (x *call) showGroupTree(g *given) {
	var show func(name string, depth int)
	show = func(name string, depth int) {
		x.say("%s%s", strings.Repeat("   ", depth), name)
		if group := x.cluster().HostGroups().Group(name); group != nil {
			for _, h := range group.Hosts {
				show(h, depth+1)
			}
		}
	}
	if group := x.group(g.value()); group != nil {
		show(group.Name, 0)
	}
}

func (x *call) showGroupHosts(g *given) {
	if group := x.group(g.value()); group != nil {
		x.say("%s", strings.Join(x.cluster().HostGroups().Hosts(group.Name), " "))
	}
}

// showDetached runs -sds: it prints settings of queues for hosts, or host groups, that are not in
// their host lists.
func (x *call) showDetached(*given) {
	groups := x.cluster().HostGroups()
	for _, name := range x.cluster().QueueNames() {
		q, err := x.cluster().Queue(name)
		if err != nil {
			continue
		}
		hosts := groups.Resolve(q.Hosts)
		on := func(who string) bool {
			if strings.HasPrefix(who, "@") {
				return slices.ContainsFunc(hosts, func(h string) bool { return groups.Contains(who, h) })
			}
			return slices.ContainsFunc(hosts, func(h string) bool { return qconf.SameHost(h, who) })
		}
		for _, attribute := range q.Attributes() {
			v, _ := q.Value(attribute)
			for _, p := range splitValue(v)[1:] {
				if !on(p.who) {
					what := "host"
					if strings.HasPrefix(p.who, "@") {
						what = "host group"
					}
					x.say("unused setting for attribute %q and %s %q in queue %q.", attribute, what, p.who, name)
					x.result.Exit = 1
				}
			}
		}
	}
}

// showClients runs -secl: the only event client of this process is the scheduler.
func (x *call) showClients(*given) {
	x.say("%8s %-15s %-25s", "ID", "NAME", "HOST")
	x.say("%s", strings.Repeat("-", 50))
	x.say("%8d %-15s %-25s", 1, "scheduler", x.hostName())
}

// showMatching runs -sobjl: it prints the names of the queues or hosts with a value of an
// attribute.
func (x *call) showMatching(g *given) {
	attribute := g.values[1]
	e, err := expression.Compile(expression.String, g.values[2])
	if err != nil {
		x.fail(1, "error: %s", err)
		return
	}
	// Each element of a list is checked.
	matches := func(value string) bool {
		if e.Match(value) {
			return true
		}
		return slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }), e.Match)
	}
	c := x.cluster()
	names, err := expression.Compile(expression.String, attribute)
	if err != nil {
		x.fail(1, "error: %s", err)
		return
	}
	switch g.values[0] {
	case "exechost":
		for _, name := range c.HostNames() {
			h, err := c.Host(name)
			if err == nil && slices.ContainsFunc(h.Attributes(), func(a string) bool {
				v, _ := h.Value(a)
				return (a == attribute || names.Match(a)) && matches(v)
			}) {
				x.say("%s", name)
			}
		}
		return
	case "queue", "queue_domain", "queue_instance":
	default:
		return // without a message (tested)
	}
	for _, name := range x.cell.InListOrder(c.QueueNames()) {
		q, err := c.Queue(name)
		if err != nil {
			continue
		}
		said := map[string]bool{} // prints each once, even if several parts of it match
		say := func(what string) {
			if !said[what] {
				said[what] = true
				x.say("%s", what)
			}
		}
		for _, a := range q.Attributes() {
			if a != attribute && !names.Match(a) {
				continue
			}
			v, _ := q.Value(a)
			for _, p := range splitValue(v) {
				if !matches(p.text) {
					continue
				}
				switch domain := strings.HasPrefix(p.who, "@"); {
				case p.who == "" && g.values[0] == "queue":
					say(name)
				case domain && g.values[0] == "queue_domain", p.who != "" && !domain && g.values[0] == "queue_instance":
					say(name + "@" + p.who)
				}
			}
		}
	}
}
