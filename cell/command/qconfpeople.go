package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// people is a list of users or hosts.
type people struct {
	file, what, list string // "managers", "manager", "manager list"
	option           string // "m": -am, -dm, -sm
	hosts            bool
	names            func(x *call) []string
}

var allPeople = []people{
	{"managers", "manager", "manager list", "m", false, func(x *call) []string {
		return distinct(append(x.fixedManagers(), x.cluster().Managers()...))
	}},
	{"operators", "operator", "operator list", "o", false, func(x *call) []string { return x.cluster().Operators() }},
	{"adminhosts", "adminhost", "administrative host list", "h", true, func(x *call) []string {
		return distinct(append([]string{x.hostName()}, x.cluster().AdminHosts()...))
	}},
	{"submithosts", "submithost", "submit host list", "s", true, func(x *call) []string {
		if hosts := x.cluster().SubmitHosts(); hosts != nil {
			return hosts
		}
		return []string{x.hostName()}
	}},
}

// fixedManagers returns the managers who are not on the list: root, and the managers from the
// daemon's options.
func (x *call) fixedManagers() []string {
	listed := x.cell.Cluster().Managers()
	return slices.DeleteFunc(slices.Clone(x.cell.Managers()), func(m string) bool { return slices.Contains(listed, m) })
}

// peopleActions returns the options for managers, operators, hosts and the members of access
// lists.
func peopleActions() []action {
	var all []action
	for _, p := range allPeople {
		args := "user_list"
		if p.hosts {
			args = "hostname_list"
		}
		all = append(all,
			action{option: option{name: "-a" + p.option, args: args, values: 1, help: "add to the " + p.list}, run: func(x *call, g *given) { x.addPeople(p, g) }},
			action{option: option{name: "-d" + p.option, args: args, values: 1, help: "delete from the " + p.list}, by: managers, run: func(x *call, g *given) { x.deletePeople(p, g) }},
			action{option: option{name: "-s" + p.option, help: "show the " + p.list}, run: func(x *call, _ *given) { x.showNames(p.names(x), "no "+strings.TrimSuffix(p.list, " list")+" defined") }},
		)
	}
	return append(all,
		action{option: option{name: "-au", args: "user_list listname_list", values: 2, help: "add user(s) to userset list(s)"}, by: operators, run: (*call).addMembers},
		action{option: option{name: "-du", args: "user_list listname_list", values: 2, help: "delete user(s) from userset list(s)"}, run: (*call).deleteMembers},
	)
}

// knownHost reports whether a host belongs to the cluster, and prints an error if not.
func (x *call) knownHost(name string) bool {
	if qconf.SameHost(name, x.hostName()) {
		return true
	}
	if _, err := x.cluster().Host(name); err == nil {
		return true
	}
	x.fail(1, "can't resolve hostname %q", name)
	return false
}

func (x *call) addPeople(p people, g *given) {
	for _, name := range list(g.value()) {
		if p.hosts && !x.knownHost(name) {
			continue
		}
		if !x.permitted(managers) { // (tested: after a host that is unknown)
			return
		}
		names := p.names(x)
		if slices.Contains(names, name) {
			x.warn("%s %q already exists", p.what, name)
			if !p.hosts { // (tested)
				x.result.Exit = 1
			}
			continue
		}
		if !x.writePeople(p, append(slices.Clone(names), name)) {
			continue
		}
		if p.hosts {
			x.warn("%s added to %s", name, p.list)
		} else {
			x.warn("%s added %q to %s", x.who(), name, p.list)
		}
	}
}

// deleted are the words for hosts that are no longer on a list (tested).
var deleted = map[string][2]string{"adminhosts": {"administrative host", "administrative host list"}, "submithosts": {"submit host", "submit host list"}}

func (x *call) deletePeople(p people, g *given) {
	for _, name := range list(g.value()) {
		names := p.names(x)
		what := p.what
		if p.hosts {
			if what = deleted[p.file][0]; !x.knownHost(name) {
				continue
			}
		}
		switch {
		case p.file == "managers" && name == "root":
			x.fail(1, "may not remove user %q from manager list", name)
		case p.file == "adminhosts" && qconf.SameHost(name, x.hostName()):
			x.fail(1, "denied: can't delete master host %q from admin host list", name)
		case !slices.Contains(names, name):
			x.fail(1, "denied: %s %q does not exist", what, name)
		case x.writePeople(p, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })):
			x.warn("%s removed %q from %s", x.who(), name, p.list)
		}
	}
}

// writePeople writes a list. root is a manager without being on it.
func (x *call) writePeople(p people, names []string) bool {
	names = distinct(names)
	if p.file == "managers" {
		fixed := x.fixedManagers()
		names = slices.DeleteFunc(names, func(n string) bool { return n == "root" || slices.Contains(fixed, n) })
	}
	text := strings.Join(names, "\n")
	if text != "" {
		text += "\n"
	}
	if err := x.write(Write{Path: p.file, Text: []byte(text)}); err != nil {
		x.refuseChange(nil, "", err)
		return false
	}
	return true
}

func (x *call) addMembers(g *given) {
	for _, set := range list(g.values[1]) {
		for _, user := range words(g.values[0]) {
			o, ok := userSetKind.find(x.cluster(), set)
			var entries []string
			if ok {
				entries = elements(o, "entries", ",")
			} else {
				var err error
				if o, err = userSetKind.parse("", []byte("name "+set+"\ntype ACL\n")); err != nil {
					x.refuseChange(userSetKind, set, err)
					return
				}
			}
			if slices.Contains(entries, user) {
				x.fail(1, "%q is already in access list %q", user, set)
				continue
			}
			if x.writeMembers(o, set, append(entries, user)) {
				x.warn("added %q to access list %q", user, set)
			}
		}
	}
}

// words returns the elements of a list that are separated by commas or blanks (tested).
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func (x *call) deleteMembers(g *given) {
	for _, set := range list(g.values[1]) {
		for _, user := range words(g.values[0]) {
			o, ok := userSetKind.find(x.cluster(), set)
			if !ok {
				x.fail(1, "access list %q doesn't exist", set)
				break
			}
			entries := elements(o, "entries", ",")
			if !slices.Contains(entries, user) {
				x.fail(1, "user %q is not in access list %q", user, set)
				continue
			}
			if !x.permitted(operators) {
				return
			}
			if x.writeMembers(o, set, slices.DeleteFunc(entries, func(e string) bool { return e == user })) {
				x.warn("deleted user %q from access list %q", user, set)
			}
		}
	}
}

func (x *call) writeMembers(o object, set string, entries []string) bool {
	text := strings.Join(entries, ",")
	if text == "" {
		text = none
	}
	next, err := userSetKind.with(o, "entries", text)
	if err == nil {
		err = x.write(Write{Path: userSetKind.path(set), Text: []byte(next.Format(qconf.Wrapped))})
	}
	if err != nil {
		x.refuseChange(userSetKind, set, err)
		return false
	}
	return true
}

// none is a list without elements, as objects have it.
const none = "NONE"

// elements returns the elements of an attribute that is a list.
func elements(o object, attribute, separator string) []string {
	v, _ := o.Value(attribute)
	return splitElements(v, separator)
}

func splitElements(v, separator string) []string {
	if strings.EqualFold(strings.TrimSpace(v), none) {
		return nil
	}
	if separator == " " {
		return strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
	}
	var all []string
	for _, e := range list(v) {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	return all
}
