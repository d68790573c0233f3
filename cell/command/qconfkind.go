package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// actions returns the options for the objects of a kind.
func (k *kind) actions() []action {
	name := k.spec + "_name"
	var all []action
	put := func(word string, o option, by role, file int, run func(*call, *given)) {
		if word != "" {
			o.name = word
			all = append(all, action{option: o, run: run, by: by, file: file})
		}
	}
	one := option{args: name, values: 1}
	show := option{args: name + "_list", values: 1, help: "show " + k.what}
	if k == queueKind {
		show = option{args: "[wc_queue_list]", optional: anyNumber, help: "show cluster queues, queue instances, or the template"}
	}
	put(k.show, show, anyone, 0, func(x *call, g *given) { x.show(k, g) })
	put(k.showAll, option{help: "show a list of all: " + k.what}, anyone, 0, func(x *call, _ *given) { x.showNames(x.allNames(k), k.none) })
	add := one
	if k == queueKind || k == userKind || k == projectKind || k == hostKind {
		add = option{args: "[" + name + "]", optional: 1}
	}
	add.help = "add " + k.what + ", with an editor"
	put(k.add, add, k.changedBy(), 0, func(x *call, g *given) { x.addEdited(k, g.value()) })
	one.help = "modify " + k.what + ", with an editor"
	put(k.modify, one, k.changedBy(), 0, func(x *call, g *given) { x.modifyEdited(k, g.value()) })
	file := option{args: "fname", values: 1, help: "add " + k.what + " from file"}
	put(k.addFile, file, k.changedBy(), 1, func(x *call, g *given) { x.fromFile(k, g.value(), true) })
	file.help = "modify " + k.what + " from file"
	put(k.modifyFile, file, k.changedBy(), 1, func(x *call, g *given) { x.fromFile(k, g.value(), false) })
	put(k.remove, option{args: name + "_list", values: 1, help: "delete " + k.what}, k.changedBy(), 0, func(x *call, g *given) { x.remove(k, list(g.value())) })
	return all
}

// showNames prints a list, or that there is nothing on it.
func (x *call) showNames(names []string, none string) {
	for _, n := range names {
		x.say("%s", n)
	}
	if len(names) == 0 {
		x.fail(1, "%s", none)
	}
}

// show runs -sq, -sp and similar options.
func (x *call) show(k *kind, g *given) {
	if k == queueKind {
		x.showQueues(g)
		return
	}
	shown := 0
	names := list(g.value())
	if k == hostKind { // one name: a list is none in the original
		names = []string{g.value()}
	}
	for i, name := range names {
		if i > 0 && k == userKind { // (tested)
			x.say("")
		}
		o, ok := x.find(k, name)
		if !ok {
			x.warn(k.unknown, name)
			if k != userKind { // (tested)
				x.result.Exit = 1
			}
			continue
		}
		if shown++; shown > 1 && k != userKind {
			x.say("")
		}
		if h, ok := o.(*qconf.ExecHost); ok {
			o = x.reported(h)
		}
		x.stdout.lines(o.Format(x.style()))
	}
}

// reported returns a host with its reported values, which qconf -se also shows.
func (x *call) reported(h *qconf.ExecHost) *qconf.ExecHost {
	values := x.cell.Reported(h.Name)
	if len(values) == 0 {
		values = map[string]string{"num_proc": "0"}
	}
	var all []string
	for name, v := range x.cell.Reported(h.Name) {
		all = append(all, name+"="+v)
	}
	if slices.Sort(all); all == nil {
		all = []string{none}
	}
	if next, err := h.With("load_values", strings.Join(all, ",")); err == nil {
		h = next
	}
	if n, ok := values["num_proc"]; ok {
		if next, err := h.With("processors", n); err == nil {
			h = next
		}
	}
	return h
}

// showQueues runs -sq: it prints cluster queues, queue instances for names with a host, or the
// template if there are no names.
func (x *call) showQueues(g *given) {
	if len(g.values) == 0 {
		x.stdout.lines(queueKind.newText("", x.style()))
		return
	}
	shown := 0
	put := func(o interface{ Format(qconf.Style) string }) {
		if shown++; shown > 1 {
			x.say("")
		}
		x.stdout.lines(o.Format(x.style()))
	}
	whole := map[string]bool{} // cluster queues are shown once
	for _, name := range list(strings.Join(g.values, ",")) {
		found := false
		r, err := compileQueue(x, name)
		for _, q := range x.cell.InListOrder(x.cluster().QueueNames()) {
			queue, findErr := x.cluster().Queue(q)
			switch {
			case findErr != nil:
			case !strings.Contains(name, "@"):
				if q == name || err == nil && r.MatchQueue(q) {
					found = true
					if !whole[q] {
						put(queue)
					}
					whole[q] = true
				}
			case err == nil:
				for _, host := range x.hostsOf(q) {
					if r.Match(q, host, x.hostGroups) {
						found = true
						put(queue.InstanceText(host, x.cluster().HostGroups()))
					}
				}
			}
		}
		if !found {
			x.fail(1, queueKind.unknown, name)
		}
	}
}

// hostsOf returns the hosts on which a queue is.
func (x *call) hostsOf(queue string) []string {
	m := x.cell.Model()
	id, ok := m.Queue(queue)
	if !ok {
		return nil
	}
	var hosts []string
	for _, i := range m.InstancesOf(id) {
		hosts = append(hosts, m.HostName(m.HostOf(i)))
	}
	return hosts
}

// addEdited runs -aq and similar options.
func (x *call) addEdited(k *kind, name string) {
	if k == hostKind {
		x.addHost(name)
		return
	}
	if k == groupKind && name != "" && !strings.HasPrefix(name, "@") {
		x.fail(1, "host group name %q is not valid", name)
		return
	}
	if name != "" {
		if _, ok := x.find(k, name); ok {
			x.fail(1, "%s %q already exists", k.what, name)
			return
		}
	}
	x.addText(k, name, k.newText(name, x.style()))
}

// addHost runs -ae: the template is the text of a host, if one is named.
func (x *call) addHost(template string) {
	text := hostKind.newText("", x.style())
	if template != "" {
		o, ok := hostKind.find(x.cluster(), template)
		if !ok {
			x.fail(1, hostKind.unknown, template)
			return
		}
		text = strings.Replace(o.Format(x.style()), template, "template", 1)
	}
	x.addText(hostKind, "", text)
}

// addText makes the user edit a text, and makes a new object of it.
func (x *call) addText(k *kind, name, text string) {
	next, ok := x.edited(k.spec, text)
	if !ok {
		return
	}
	// A host group, or a queue with a name, may stay as in the template (tested).
	if string(next) == text && k != groupKind && (k != queueKind || name == "") {
		x.fail(1, "file unchanged")
		return
	}
	x.put(k, "", next, true)
}

// modifyEdited runs -mq and similar options.
func (x *call) modifyEdited(k *kind, name string) {
	names := []string{name}
	if k == userSetKind {
		names = list(name)
	}
	for _, name := range names {
		o, ok := x.find(k, name)
		var text string
		isNew := false
		switch {
		case ok:
			text = o.Format(x.style())
		case k == userSetKind: // it is made (tested)
			text, isNew = k.newText(name, x.style()), true
		case k == queueKind:
			x.fail(1, "Cluster queue entry %q does not exist", name)
			return
		default:
			x.fail(1, k.unknown, name)
			return
		}
		next, ok := x.edited(k.spec, text)
		switch {
		case !ok:
			return
		case string(next) != text || k == queueKind:
			x.put(k, "", next, isNew)
		case k == userSetKind:
			x.say("file unchanged")
		default:
			x.fail(1, "file unchanged")
		}
	}
}

// fromFile runs -Aq, -Mq and similar options.
func (x *call) fromFile(k *kind, file string, isNew bool) {
	data, ok := x.configured(file)
	if !ok {
		if k != queueKind || !isNew { // (tested)
			x.notTaken(k, file)
		}
		return
	}
	x.put(k, file, data, isNew)
}

// put adds or changes an object of a kind. file is the source of its text, or "" for an editor.
func (x *call) put(k *kind, file string, data []byte, isNew bool) {
	o, err := k.parse("", data)
	if sample, sampleErr := k.sample(); sampleErr == nil && x.incomplete(k, sample, file, data, err) {
		return
	}
	if err != nil {
		x.notReadOf(k, file, err)
		return
	}
	name := k.name(o)
	_, exists := x.find(k, name)
	switch {
	case isNew && exists:
		x.fail(1, "%s %q already exists", k.what, name)
		return
	case !isNew && !exists:
		if k == projectKind || k == userKind || k == hostKind {
			x.fail(1, k.unknown, name)
		} else {
			x.fail(1, "denied: %s %q does not exist", k.what, name)
		}
		return
	}
	if !x.hostsKnown(k, o) {
		return
	}
	if err := x.write(Write{Path: k.path(name), Text: []byte(o.Format(qconf.Wrapped))}); err != nil {
		x.refuseChange(k, name, err)
		return
	}
	if isNew {
		x.changed(k, "added %q to %s", name, k.list)
	} else {
		x.changed(k, "modified %q in %s", name, k.list)
	}
}

// hostsKnown reports whether the hosts that a queue or a host group names belong to the cluster,
// and prints an error if not. It does not check hosts that the object already named before.
func (x *call) hostsKnown(k *kind, o object) bool {
	if k != queueKind && k != groupKind {
		return true
	}
	var before []string
	if former, ok := k.find(x.cluster(), k.name(o)); ok {
		before = elements(former, "hostlist", " ")
	}
	for _, host := range elements(o, "hostlist", " ") {
		_, err := x.cluster().Host(host)
		if err != nil && !strings.HasPrefix(host, "@") && !qconf.SameHost(host, x.hostName()) && !slices.Contains(before, host) {
			x.fail(1, "unable to resolve host %q", host)
			return false
		}
	}
	return true
}

// remove runs -dq and similar options.
func (x *call) remove(k *kind, names []string) {
	for _, name := range names {
		o, ok := x.find(k, name)
		switch {
		case !ok && k == hostKind:
			x.fail(1, k.unknown, name)
			continue
		case !ok:
			x.fail(1, "denied: %s %q does not exist", k.gone, name)
			continue
		case k == hostKind && name == qconf.GlobalHost:
			x.fail(1, "denied: host %q is always there", name)
			continue
		}
		name = k.name(o)
		if _, stored := k.find(x.cluster(), name); !stored {
			x.removeAutomatic(name)
			continue
		}
		if text := x.usedBy(k, name); text != "" {
			x.fail(1, "%s", text)
			continue
		}
		if err := x.write(Write{Path: k.path(name), Remove: true}); err != nil {
			x.refuseChange(k, name, err)
			continue
		}
		x.warn("%s removed %q from %s", x.who(), name, k.removed)
	}
}

// removeAutomatic runs -duser for a user that was created automatically for a job.
func (x *call) removeAutomatic(name string) {
	if err := x.cell.RemoveAutomaticUser(x.now, name); err != nil {
		x.fail(1, "denied: %s", err)
		return
	}
	x.warn("%s removed %q from %s", x.who(), name, userKind.removed)
}

// usedBy returns the error message if another object still uses an object which is to be deleted,
// or "" (tested).
func (x *call) usedBy(k *kind, name string) string {
	switch k {
	case queueKind:
		return x.queueUsed(name)
	case hostKind:
		for _, q := range x.cluster().QueueNames() {
			queue, err := x.cluster().Queue(q)
			if err == nil && slices.ContainsFunc(queue.Hosts, func(h string) bool { return qconf.SameHost(h, name) }) {
				return "Host object \"" + name + "\" is still referenced in cluster queue \"" + q + "\"."
			}
		}
		for _, g := range x.cluster().HostGroups().Names() {
			if slices.ContainsFunc(x.cluster().HostGroups().Group(g).Hosts, func(h string) bool { return qconf.SameHost(h, name) }) {
				return "Host object \"" + name + "\" is still referenced in host group \"" + g + "\"."
			}
		}
		return ""
	case peKind:
		if id := x.jobWithPE(name); id != 0 {
			return "denied: Parallel environment \"" + name + "\" is still in use by job " + number(id)
		}
	case userKind:
		return x.inTree(k, name)
	case projectKind:
		if text := x.inTree(k, name); text != "" {
			return text
		}
		for _, j := range x.cell.Jobs() {
			if j.Project == name {
				return "denied: project \"" + name + "\" is still referenced in job " + number(j.ID())
			}
		}
		for _, user := range x.cluster().UserNames() {
			if u, err := x.cluster().User(user); err == nil && u.DefaultProject == name {
				return "project \"" + name + "\" is still referenced by user \"" + user + "\""
			}
		}
	}
	for _, q := range x.cluster().QueueNames() {
		queue, err := x.cluster().Queue(q)
		if err != nil {
			continue
		}
		names := func(attribute string) bool {
			v, _ := queue.Value(attribute)
			return slices.Contains(strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" ,[]=", r) }), name)
		}
		switch {
		case k == peKind && names("pe_list"):
			return "denied: Parallel environment \"" + name + "\" is still referenced in queue \"" + q + "\"."
		case k == ckptKind && names("ckpt_list"):
			return "denied: Ckpt \"" + name + "\" is still referenced in queue \"" + q + "\"."
		case k == calendarKind && names("calendar"):
			return "denied: Calendar \"" + name + "\" is still referenced in queue \"" + q + "\""
		case k == groupKind && names("hostlist"):
			return "denied: these cluster queues still reference \"" + name + "\": " + q
		case k == userSetKind && names("user_lists"):
			return "denied: userset \"" + name + "\" is still referenced in user list of queue \"" + q + "\""
		case k == userSetKind && names("xuser_lists"):
			return "denied: userset \"" + name + "\" is still referenced in xuser list of queue \"" + q + "\""
		case k == projectKind && names("projects"):
			return "denied: project \"" + name + "\" is still referenced in projects of queue \"" + q + "\""
		case k == projectKind && names("xprojects"):
			return "denied: project \"" + name + "\" is still referenced in xprojects of queue \"" + q + "\""
		}
	}
	return ""
}

// inTree says that the share tree has a node of a user or a project.
func (x *call) inTree(k *kind, name string) (text string) {
	x.cluster().ShareTree().Walk(func(n, _ *qconf.ShareNode) {
		if n.Name == name && n.Project == (k == projectKind) {
			text = fmt.Sprintf("denied: may not remove %s %q still referenced in share tree", k.what, name)
		}
	})
	return text
}

// jobWithPE returns a job that runs in a parallel environment, 0 for none. Such a job could not
// continue without the environment.
func (x *call) jobWithPE(name string) uint32 {
	for _, j := range x.cell.Jobs() {
		for _, t := range j.Tasks() {
			if run := t.Running(); run != nil && run.PE != scheduler.None && x.cell.Model().PEName(run.PE) == name {
				return j.ID()
			}
		}
	}
	return 0
}

// queueUsed says that jobs run in a queue.
func (x *call) queueUsed(name string) string {
	m := x.cell.Model()
	if id, ok := m.Queue(name); ok {
		if slices.ContainsFunc(m.InstancesOf(id), func(i scheduler.InstanceID) bool { return len(x.cell.TasksIn(i)) > 0 }) {
			return "There are still running jobs in the queue. Deletion denied."
		}
	}
	return ""
}
