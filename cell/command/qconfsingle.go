package command

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// singleActions returns the options for configurations that a cell has once: the complexes, the
// scheduler's configuration, the global configuration with the local ones, and the list of resource
// quota sets.
func singleActions() []action {
	file := option{args: "fname", values: 1}
	hosts := option{args: "[host_list|global]", optional: 1}
	sets := option{args: "[rqs_list]", optional: 1}
	named := func(o option, name, help string) option {
		o.name, o.help = name, help
		return o
	}
	return []action{
		{option: option{name: "-sc", help: "show complex attributes"}, run: func(x *call, _ *given) { x.stdout.lines(x.cluster().Complexes().Format()) }},
		{option: option{name: "-mc", help: "modify complex attributes, with an editor"}, run: (*call).editComplexes, by: managers},
		{option: named(file, "-Mc", "modify complex attributes from file"), run: (*call).complexesFromFile, by: managers, file: 1},

		{option: option{name: "-ssconf", help: "show scheduler configuration"}, run: func(x *call, _ *given) {
			x.stdout.lines(x.cluster().Scheduler().Format(x.style()))
		}},
		{option: option{name: "-msconf", help: "modify scheduler configuration, with an editor"}, run: (*call).editScheduler, by: managers},
		{option: named(file, "-Msconf", "modify scheduler configuration from file"), run: (*call).schedulerFromFile, by: managers, file: 1},

		{option: named(hosts, "-sconf", "show configurations"), run: (*call).showConf},
		{option: option{name: "-sconfl", help: "show a list of all local configurations"}, run: func(x *call, _ *given) {
			x.showNames(x.cluster().LocalNames(), "no config defined")
		}},
		{option: named(hosts, "-mconf", "modify configurations, with an editor"), run: func(x *call, g *given) { x.editConf(g, false) }, by: managers},
		{option: option{name: "-aconf", args: "host_list", values: 1, help: "add configurations, with an editor"}, run: func(x *call, g *given) { x.editConf(g, true) }, by: managers},
		{option: option{name: "-Aconf", args: "file_list", values: 1, help: "add configurations from file_list"}, run: func(x *call, g *given) { x.confFromFiles(g, true) }, by: managers, file: 1},
		{option: option{name: "-Mconf", args: "file_list", values: 1, help: "modify configurations from file_list"}, run: func(x *call, g *given) { x.confFromFiles(g, false) }, by: managers, file: 1},
		{option: option{name: "-dconf", args: "host_list", values: 1, help: "delete local configurations"}, run: (*call).deleteConf, by: managers},

		{option: named(sets, "-srqs", "show resource quota set(s)"), run: (*call).showQuotas},
		{option: option{name: "-srqsl", help: "show resource quota set list"}, run: (*call).showQuotaNames},
		{option: named(sets, "-arqs", "add resource quota set(s), with an editor"), run: (*call).addQuotas, by: managers},
		{option: named(sets, "-mrqs", "modify resource quota set(s), with an editor"), run: (*call).editQuotas, by: managers},
		{option: named(file, "-Arqs", "add resource quota set(s) from file"), run: (*call).quotasFromFile, by: managers, file: 1},
		{option: option{name: "-Mrqs", args: "fname [rqs_list]", values: 1, optional: 1, help: "modify resource quota set(s) from file"}, run: (*call).modifiedQuotas, by: managers, file: 1},
		{option: option{name: "-drqs", args: "rqs_list", values: 1, help: "delete resource quota set(s)"}, run: (*call).deleteQuotas, by: managers},
	}
}

func (x *call) editComplexes(*given) {
	if next, ok := x.edited("complex", x.cluster().Complexes().Format()); ok {
		x.putComplexes("", next)
	}
}

func (x *call) complexesFromFile(g *given) {
	data, ok := x.configured(g.value())
	if !ok {
		x.warn("Complex attribute file %q is not correct", g.value())
		return
	}
	x.putComplexes(g.value(), data)
}

// putComplexes replaces the complexes, and prints the added, changed and removed ones.
func (x *call) putComplexes(file string, data []byte) {
	next, err := qconf.ParseComplexes("", data)
	if err != nil {
		for _, e := range qconf.Errors(err) {
			x.fail(1, "error: line %d: %s", e.Line, problem(e))
		}
		x.fail(1, "Complex attribute file %q is not correct", file)
		return
	}
	before := map[string]qconf.Complex{}
	for _, c := range x.cluster().Complexes().All() {
		before[c.Name] = c
	}
	var said []string
	for _, c := range next.All() {
		switch was, ok := before[c.Name]; {
		case !ok:
			said = append(said, "added \""+c.Name+"\" to complex entry list")
		case was != c:
			said = append(said, "modified \""+c.Name+"\" in complex entry list")
		}
		delete(before, c.Name)
	}
	for _, c := range x.cluster().Complexes().All() {
		if _, gone := before[c.Name]; gone {
			if user := x.complexUsed(c.Name); user != "" {
				x.fail(1, "denied: Complex attribute %q is still referenced in %s.", c.Name, user)
				return
			}
			said = append(said, "removed \""+c.Name+"\" from complex list")
		}
	}
	if said == nil {
		x.warn("Complex attribute configuration has not been changed")
		return
	}
	if err := x.write(Write{Path: complexFile, Text: []byte(next.Format())}); err != nil {
		x.refuseChange(nil, "", err)
		return
	}
	for _, s := range said {
		x.changed(nil, "%s", s)
	}
}

// complexUsed returns a host or queue that has a value for a complex, "" for none.
func (x *call) complexUsed(name string) string {
	has := func(o object) bool {
		return slices.ContainsFunc(elements(o, "complex_values", ","), func(e string) bool {
			n, _, _ := strings.Cut(strings.Trim(e, "[]"), "=")
			return n == name
		})
	}
	c := x.cluster()
	for _, host := range append([]string{qconf.GlobalHost}, c.HostNames()...) {
		if o, ok := hostKind.find(c, host); ok && has(o) {
			return fmt.Sprintf("host %q", host)
		}
	}
	for _, queue := range c.QueueNames() {
		if o, ok := queueKind.find(c, queue); ok && has(o) {
			return fmt.Sprintf("queue %q", queue)
		}
	}
	return ""
}

func (x *call) editScheduler(*given) {
	text := x.cluster().Scheduler().Format(x.style())
	next, ok := x.edited("sched_conf", text)
	switch {
	case !ok:
	case string(next) == text:
		x.fail(1, "file unchanged")
	default:
		x.putScheduler("", next)
	}
}

func (x *call) schedulerFromFile(g *given) {
	data, ok := x.configured(g.value())
	if !ok {
		x.warn("error reading in file")
		return
	}
	x.putScheduler(g.value(), data)
}

func (x *call) putScheduler(file string, data []byte) {
	next, err := qconf.ParseSchedulerConfig("", data)
	if x.incomplete(nil, x.cluster().Scheduler(), file, data, err) {
		return
	}
	if err != nil {
		x.notRead(file, err)
		return
	}
	if err := x.write(Write{Path: schedulerFile, Text: []byte(next.Format(qconf.Wrapped))}); err != nil {
		x.refuseChange(nil, "", err)
		return
	}
	x.warn("changed scheduler configuration")
}

// conf returns the global configuration, or that of a host.
func (x *call) conf(host string) (object, bool) {
	if host == qconf.GlobalName {
		return x.cluster().Global(), true
	}
	l, err := x.cluster().Local(host)
	if err != nil {
		return nil, false
	}
	return l, true
}

func (x *call) showConf(g *given) {
	names := list(g.value())
	if len(names) == 0 {
		names = []string{qconf.GlobalName}
	}
	for _, name := range names {
		o, ok := x.conf(name)
		if !ok {
			if x.confHost(name) {
				x.fail(1, "configuration %s not defined", name)
			}
			continue
		}
		x.stdout.lines(o.Format(x.style()))
	}
}

// confHost reports whether a host may have a configuration, and prints an error if not.
func (x *call) confHost(name string) bool {
	if qconf.SameHost(name, x.hostName()) {
		return true
	}
	if _, err := x.cluster().Host(name); err == nil {
		return true
	}
	x.fail(1, "can't resolve hostname %q: can't resolve host name", name)
	return false
}

// editConf runs -mconf and -aconf.
func (x *call) editConf(g *given, isNew bool) {
	names := list(g.value())
	if len(names) == 0 {
		names = []string{qconf.GlobalName}
	}
	for _, name := range names {
		o, exists := x.conf(name)
		text := ""
		switch {
		case isNew && exists:
			x.fail(1, "configuration %s already exists", name)
			return
		case exists:
			text = o.Format(x.style())
		case !x.confHost(name):
			x.warn("configuration unchanged")
			return
		case !isNew:
			x.fail(1, "configuration %s not defined", name)
			return
		}
		next, ok := x.edited("conf", text)
		switch {
		case !ok:
			return
		case string(next) == text:
			x.fail(1, "configuration unchanged")
			return
		}
		x.putConf(name, "", next, isNew)
	}
}

// confFromFiles runs -Aconf and -Mconf: the files are named like the hosts.
func (x *call) confFromFiles(g *given, isNew bool) {
	for _, file := range list(g.value()) {
		data, ok := x.configured(file)
		if !ok {
			x.warn("error reading in file")
			continue
		}
		name := path.Base(file)
		_, exists := x.conf(name)
		switch {
		case isNew && exists:
			x.fail(1, "configuration %s already exists", name)
		case !isNew && !exists:
			x.fail(1, "configuration %s does not exist", name)
		case !exists && !x.confHost(name):
		default:
			x.putConf(name, file, data, isNew)
		}
	}
}

func (x *call) putConf(name, file string, data []byte, isNew bool) {
	var o object
	var err error
	if name == qconf.GlobalName {
		o, err = qconf.ParseConfiguration("", data)
	} else {
		o, err = qconf.ParseLocal(name, "", data)
	}
	if err == nil {
		err = x.write(Write{Path: confFolder + "/" + name, Text: []byte(o.Format(qconf.Wrapped))})
	} else {
		x.notRead(file, err)
		return
	}
	switch {
	case err != nil:
		x.refuseChange(nil, name, err)
	case isNew:
		x.changed(nil, "added %q to configuration list", name)
	default:
		x.changed(nil, "modified %q in configuration list", name)
	}
}

func (x *call) deleteConf(g *given) {
	for _, name := range list(g.value()) {
		if name == qconf.GlobalName {
			x.warn("can't delete configuration %q from list", name)
			continue
		}
		l, err := x.cluster().Local(name)
		if err != nil {
			x.fail(1, "denied: configuration %q does not exist", name)
			continue
		}
		i := slices.IndexFunc(x.cluster().LocalNames(), func(n string) bool { return strings.EqualFold(n, l.Host) })
		if i >= 0 {
			name = x.cluster().LocalNames()[i]
		}
		if err := x.write(Write{Path: confFolder + "/" + name, Remove: true}); err != nil {
			x.refuseChange(nil, name, err)
			continue
		}
		x.warn("%s removed %q from configuration list", x.who(), name)
	}
}
