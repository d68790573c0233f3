package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// way is the kind of a change of an attribute: the letter of -aattr, -mattr, -rattr or -dattr.
type way byte

// attributeActions returns the options that change attributes of many objects at once.
func attributeActions() []action {
	var all []action
	for _, w := range []struct {
		letter way
		help   string
	}{
		{'a', "add to a list attribute of an object"},
		{'m', "modify an attribute (or element in a sublist) of an object"},
		{'d', "delete from a list attribute of an object"},
		{'r', "replace a list attribute of an object"},
	} {
		letter := w.letter
		all = append(all,
			action{
				option: option{name: "-" + string(letter) + "attr", args: "obj_nm attr_nm val obj_id_list", values: 3, rest: true, help: w.help},
				run:    func(x *call, g *given) { x.changeAttribute(letter, g) },
			},
			action{
				option: option{name: "-" + strings.ToUpper(string(letter)) + "attr", args: "obj_nm fname obj_id_list", values: 2, rest: true, help: w.help + ", from file"},
				file:   2, run: func(x *call, g *given) { x.changeFromFile(letter, g) },
			},
		)
	}
	return append(all, action{
		option: option{name: "-purge", args: "obj_nm3 attr_nm objectname", values: 3, help: "delete attribute from queue domain or instance"},
		by:     managers, run: (*call).purge,
	})
}

// setting is an attribute with a value.
type setting struct{ name, value string }

func (x *call) changeAttribute(w way, g *given) {
	x.changeAttributes(w, g.values[0], []setting{{g.values[1], g.values[2]}}, g.values[3:])
}

func (x *call) changeFromFile(w way, g *given) {
	data, ok := x.configured(g.values[1])
	if !ok {
		x.wrongWord(g.values[1], "")
		return
	}
	var settings []setting
	for l := range strings.Lines(strings.ReplaceAll(string(data), "\\\n", " ")) {
		if l = strings.TrimSpace(l); l == "" || l[0] == '#' {
			continue
		}
		name, value, _ := strings.Cut(l, " ")
		settings = append(settings, setting{name, strings.TrimSpace(value)})
	}
	x.changeAttributes(w, g.values[0], settings, g.values[2:])
}

func (x *call) changeAttributes(w way, spec string, settings []setting, names []string) {
	if spec == "resource_quota" {
		if !x.permitted(managers) {
			return
		}
		for _, name := range names {
			x.changeQuota(w, settings, name)
		}
		return
	}
	k := ofSpec(spec)
	switch {
	case !x.permitted(k.changedBy()):
		return
	case k == nil:
		x.fail(1, "Modification of object %q not supported", spec)
		return
	case len(names) == 0:
		x.fail(1, "qconf: missing object list")
		return
	}
	for _, name := range names {
		for _, name := range list(name) {
			if !x.changeObject(w, k, settings, name) {
				return
			}
		}
	}
}

// changeObject changes attributes of an object, or of a queue instance or domain. more is false after an
// attribute or a value that no object accepts: the original then ignores the other objects. After an
// object that does not exist, or that refuses the change, it continues with the next one (tested).
func (x *call) changeObject(w way, k *kind, settings []setting, name string) (more bool) {
	who := ""
	if k == queueKind {
		name, who, _ = strings.Cut(name, "@")
	}
	o, found := x.find(k, name)
	if !found {
		if k == hostKind {
			x.fail(1, k.unknown, name)
		} else {
			x.fail(1, "denied: %s %q does not exist", k.what, name)
		}
		return true
	}
	name = k.name(o)
	said := x.stdout.String()
	for _, s := range settings {
		if s.name == k.key {
			continue
		}
		current, has := o.Value(s.name)
		if k == hostKind && slices.Contains(reported, s.name) || !has && !x.isAttribute(k, s) {
			x.fail(1, "The attribute name (%q) and/or value (%q) is invalid", s.name, s.value)
			return false
		}
		value, ok := x.changedValue(w, k, s, name, who, current)
		if !ok {
			return false
		}
		next, err := k.with(o, s.name, value)
		if err != nil {
			x.wrongValue(s, err)
			return false
		}
		o = next
	}
	if !x.hostsKnown(k, o) {
		return true
	}
	if err := x.write(Write{Path: k.path(name), Text: []byte(o.Format(qconf.Wrapped))}); err != nil {
		if k == hostKind || isDangling(err) { // (tested)
			x.stdout.reset()
			x.stdout.lines(said)
		}
		x.refuseChange(k, name, err)
		return true
	}
	x.say("%s modified %q in %s", x.who(), name, k.list)
	return true
}

// changedValue returns the new value of an attribute. For a queue, the value for each host and host
// group is separate: [host=value] does not change the others. ok is false if the change is refused.
func (x *call) changedValue(w way, k *kind, s setting, name, who, current string) (value string, ok bool) {
	parts, given := []override{{text: current}}, []override{{who, s.value}}
	if k == queueKind {
		parts = splitValue(current)
		if who == "" {
			given = givenValue(s.value)
		}
		if given == nil {
			return s.value, true // the reader of the value prints the error
		}
	}
	separator, isList := k.lists[s.name]
	isList = isList && (w != 'm' || s.name != k.replaced)
	for _, g := range given {
		if isList && w == 'm' && k == queueKind && strings.EqualFold(g.text, none) {
			x.fail(1, "%q is not a valid list attribute value for -mattr.  Try using -rattr instead.", none)
			return "", false
		}
		i := slices.IndexFunc(parts, func(p override) bool { return p.who == g.who || g.who != "" && strings.EqualFold(p.who, g.who) })
		if i < 0 && w == 'd' && !isList {
			continue
		}
		if i < 0 {
			parts = append(parts, override{g.who, none})
			i = len(parts) - 1
		}
		if isList && w != 'r' {
			if w == 'd' && k == queueKind && x.withoutValue(s, g.text) {
				return "", false
			}
			if k == hostKind && !x.ofHost(s, g.text, name) {
				return "", false
			}
			parts[i].text = x.combine(w, splitElements(parts[i].text, separator), splitElements(g.text, separator), s.name, x.listOf(k, name), separator)
		} else if w != 'd' {
			parts[i].text = g.text
		}
	}
	if k == queueKind {
		return joinValue(parts), true
	}
	return parts[0].text, true
}

// ofHost reports whether all elements that are added to a list of a host, or deleted from it, name something
// that exists, and prints an error about one that does not. load_scaling and usage_scaling take any name (tested).
func (x *call) ofHost(s setting, text, host string) bool {
	if text == "" {
		x.fail(1, "The attribute name (%q) and/or value (%q) is invalid", s.name, text)
		return false
	}
	for _, e := range splitElements(text, ",") {
		e, _, _ = strings.Cut(e, "=")
		complaint := ""
		switch s.name {
		case "complex_values":
			if _, ok := x.cluster().Complexes().Find(e); !ok {
				complaint = "denied: attribute %q is not a complex attribute"
			}
		case "report_variables":
			if _, ok := x.cluster().Complexes().Find(e); !ok {
				complaint = "unknown resource %q"
			}
		case "user_lists", "xuser_lists":
			if _, err := x.cluster().UserSet(e); err != nil {
				complaint = "Userset %q does not exist"
			}
		case "projects", "xprojects":
			if _, err := x.cluster().Project(e); err != nil {
				complaint = "denied: project %q referenced in " + s.name + " of exechost \"" + host + "\" does not exist"
			}
		}
		if complaint != "" && !strings.EqualFold(e, none) {
			x.fail(1, complaint, e)
			return false
		}
	}
	return true
}

// withoutValue prints an error about an element of a list of name=value that has no value. To
// delete elements, queues require a value, which may be any, and hosts require the name only
// (tested).
func (x *call) withoutValue(s setting, text string) bool {
	switch s.name {
	case "complex_values", "load_thresholds", "suspend_thresholds":
	default:
		return false
	}
	for _, e := range splitElements(text, ",") {
		if !strings.Contains(e, "=") && !strings.EqualFold(e, none) && !strings.Contains(e, " ") {
			x.warn("error parsing value %q", e)
			x.fail(1, "Error during parsing of attribute value %q", s.value)
			return true
		}
	}
	return false
}

// isAttribute reports whether objects of a kind may have an attribute that this one does
// not have.
func (x *call) isAttribute(k *kind, s setting) bool {
	o, err := k.sample()
	if err != nil {
		return false
	}
	_, err = k.with(o, s.name, s.value)
	return err == nil
}

// wrongValue complains about the value of an attribute.
func (x *call) wrongValue(s setting, err error) {
	for _, e := range qconf.Errors(err) {
		x.warn("%s", problem(e))
	}
	x.fail(1, "Error during parsing of attribute value %q", s.value)
}

// listOf returns the name of the owner of a list in messages: the name of a queue, or the kind of
// any other object (tested).
func (x *call) listOf(k *kind, name string) string {
	if k == queueKind {
		return name
	}
	return k.spec
}

// combine adds elements to a list, or replaces or deletes them. Elements with values are compared
// by name only.
func (x *call) combine(w way, have, given []string, attribute, name, separator string) string {
	key := func(e string) string {
		k, _, _ := strings.Cut(e, "=")
		return k
	}
	empty := len(have) == 0
	if empty && w == 'm' && len(given) > 0 {
		x.say("%q of %q is empty - Adding new element(s).", attribute, name)
	}
	for _, e := range given {
		i := slices.IndexFunc(have, func(h string) bool { return key(h) == key(e) })
		switch {
		case w == 'd' && i < 0:
			x.say("%q does not exist in %q of %q", key(e), attribute, name)
		case w == 'd':
			have = slices.Delete(have, i, i+1)
		case i < 0:
			if w == 'm' && !empty {
				x.say("Unable to find %q in %q of %q - Adding new element.", key(e), attribute, name)
			}
			have = append(have, e)
		case w == 'a':
			x.say("No modification because %q already exists in %q of %q", key(e), attribute, name)
		default:
			have[i] = e
		}
	}
	if len(have) == 0 {
		return none
	}
	return strings.Join(have, separator)
}

// purge removes the settings of a queue for a host or host group.
func (x *call) purge(g *given) {
	spec, attribute, instance := g.values[0], g.values[1], g.values[2]
	if spec != "queue" {
		x.fail(1, "error: Modification of object %q not supported", spec)
		return
	}
	queue, who, ok := strings.Cut(instance, "@")
	if !ok || who == "" {
		x.fail(1, "error: Given object_instance %q is incomplete", instance)
		return
	}
	o, found := queueKind.find(x.cluster(), queue)
	if !found {
		x.fail(1, "error: Cluster queue entry %q does not exist", queue)
		return
	}
	gone := false
	for _, name := range o.Attributes() {
		if attribute != "*" && !slices.Contains(list(attribute), name) {
			continue
		}
		v, _ := o.Value(name)
		parts := splitValue(v)
		left := slices.DeleteFunc(slices.Clone(parts), func(p override) bool { return p.who != "" && strings.EqualFold(p.who, who) })
		if len(left) == len(parts) {
			continue
		}
		next, err := queueKind.with(o, name, joinValue(left))
		if err != nil {
			x.wrongValue(setting{name, v}, err)
			return
		}
		o, gone = next, true
	}
	if !gone && attribute != "*" {
		x.warn("Attribute name (%q) and/or value (%q) not found", attribute, who)
		return
	}
	if err := x.write(Write{Path: queueKind.path(queue), Text: []byte(o.Format(qconf.Wrapped))}); err != nil {
		x.refuseChange(queueKind, queue, err)
		return
	}
	x.say("%s modified %q in %s", x.who(), queue, queueKind.list)
}

// limitsComplexes reports whether the limits of a rule name complexes that exist, and prints an error about one
// that does not (tested).
func (x *call) limitsComplexes(limits string) bool {
	for _, e := range splitElements(limits, ",") {
		name, _, _ := strings.Cut(e, "=")
		if _, ok := x.cluster().Complexes().Find(name); !ok {
			x.fail(1, "\"resource_quota\" references not existing complex attribute %q", name)
			return false
		}
	}
	return true
}

// changeQuota changes a resource quota set, or with a slash one of its rules, by its name
// or its number from 1.
func (x *call) changeQuota(w way, settings []setting, name string) {
	name, rule, hasRule := strings.Cut(name, "/")
	all := slices.Clone(x.cluster().ResourceQuotas())
	i := slices.IndexFunc(all, func(s *quotaSet) bool { return s.Name == name })
	if i < 0 {
		x.fail(1, "denied: resource quota set %q does not exist", name)
		return
	}
	set := *all[i]
	set.Rules = slices.Clone(set.Rules)
	for _, s := range settings {
		var ok bool
		if hasRule {
			j := slices.IndexFunc(set.Rules, func(r qconf.QuotaRule) bool { return r.Name == rule })
			if n, err := strconv.Atoi(rule); err == nil && j < 0 && n >= 1 && n <= len(set.Rules) {
				j = n - 1
			}
			if j < 0 {
				x.fail(1, "no resource quota rule specified for modification")
				return
			}
			if s.name == "limit" && !x.limitsComplexes(s.value) {
				return
			}
			set.Rules[j], ok = x.changeRule(w, set.Rules[j], s)
		} else {
			switch ok = true; s.name {
			case "enabled":
				set.Enabled = strings.EqualFold(s.value, "true")
				ok = set.Enabled || strings.EqualFold(s.value, "false")
			case "description":
				set.Description = s.value
			default:
				ok = false
			}
		}
		if !ok {
			x.fail(1, "The attribute name (%q) and/or value (%q) is invalid", s.name, s.value)
			return
		}
	}
	all[i] = &set
	if x.writeSets(all) {
		x.say("%s modified %q in resource quota set list", x.who(), name)
	}
}

// changeRule changes a filter or the limits of a rule.
func (x *call) changeRule(w way, r qconf.QuotaRule, s setting) (qconf.QuotaRule, bool) {
	text := func(filter, limits string) string {
		return "{\nname x\nenabled TRUE\nlimit " + filter + " to " + limits + "\n}\n"
	}
	parse := func(filter, limits string) (qconf.QuotaRule, bool) {
		sets, err := qconf.ParseResourceQuotas("", []byte(text(filter, limits)))
		if err != nil || len(sets) != 1 || len(sets[0].Rules) != 1 {
			return qconf.QuotaRule{}, false
		}
		return sets[0].Rules[0], true
	}
	if s.name == "limit" {
		var have []string
		for _, l := range r.Limits {
			have = append(have, l.Name+"="+l.Value)
		}
		limits := s.value
		if w != 'r' {
			limits = x.combine(w, have, splitElements(s.value, ","), s.name, r.Name, ",")
		}
		parsed, ok := parse("users *", limits)
		r.Limits = parsed.Limits
		return r, ok
	}
	if s.name == "name" {
		r.Name = s.value
		_, ok := parse("name "+s.value+" users *", "slots=1")
		return r, ok
	}
	for word, filter := range map[string]*qconf.QuotaFilter{"users": &r.Users, "projects": &r.Projects, "pes": &r.PEs, "queues": &r.Queues, "hosts": &r.Hosts} {
		if word != s.name {
			continue
		}
		parsed, ok := parse(word+" "+s.value, "slots=1")
		if !ok {
			return r, false
		}
		*filter = map[string]qconf.QuotaFilter{"users": parsed.Users, "projects": parsed.Projects, "pes": parsed.PEs, "queues": parsed.Queues, "hosts": parsed.Hosts}[word]
		return r, true
	}
	return r, false
}
