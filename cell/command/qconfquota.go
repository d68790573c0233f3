package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
)

type quotaSet = qconf.ResourceQuotaSet

func (x *call) showQuotaNames(*given) {
	var names []string
	for _, s := range x.cluster().ResourceQuotas() {
		names = append(names, s.Name)
	}
	x.showNames(names, "no resource quota set list defined")
}

func (x *call) showQuotas(g *given) {
	sets := x.cluster().ResourceQuotas()
	if len(g.values) > 0 {
		sets = x.chosenQuotas(list(g.value()))
	}
	if len(sets) == 0 {
		x.fail(1, "No resource quota set found")
		return
	}
	x.stdout.lines(qconf.FormatResourceQuotas(sets, x.style()))
}

// chosenQuotas returns the sets that match names or patterns, in the order of the list.
func (x *call) chosenQuotas(names []string) []*quotaSet {
	var chosen []*quotaSet
	for _, s := range x.cluster().ResourceQuotas() {
		if slices.ContainsFunc(names, func(n string) bool {
			e, err := expression.Compile(expression.String, n)
			return n == s.Name || err == nil && e.Match(s.Name)
		}) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

const quotaTemplate = "{\n   name         template\n   description  NONE\n   enabled      FALSE\n   limit        to slots=0\n}\n"

func (x *call) addQuotas(g *given) {
	var b strings.Builder
	names := list(g.value())
	if len(names) == 0 {
		names = []string{"template"}
	}
	for _, name := range names {
		b.WriteString(strings.Replace(quotaTemplate, "template", name, 1))
	}
	text := b.String()
	next, ok := x.edited("rqs", text)
	switch {
	case !ok:
	case string(next) == text:
		x.fail(1, "file unchanged")
	default:
		x.addSets("", next)
	}
}

func (x *call) quotasFromFile(g *given) {
	data, ok := x.configured(g.value())
	if !ok {
		x.warn("error reading in file")
		return
	}
	x.addSets(g.value(), data)
}

// readSets reads resource quota sets. If they are invalid, it prints an error, and ok is false.
func (x *call) readSets(file string, data []byte) (sets []*quotaSet, ok bool) {
	sets, err := qconf.ParseResourceQuotas("", data)
	if err != nil {
		x.notRead(file, err)
		return nil, false
	}
	return sets, true
}

func (x *call) addSets(file string, data []byte) {
	sets, ok := x.readSets(file, data)
	if !ok {
		return
	}
	all := slices.Clone(x.cluster().ResourceQuotas())
	for _, s := range sets {
		if slices.ContainsFunc(all, func(o *quotaSet) bool { return o.Name == s.Name }) {
			x.fail(1, "resource quota set %q already exists", s.Name)
			return
		}
		all = append(all, s)
	}
	if x.writeSets(all) {
		for _, s := range sets {
			x.say("%s added %q to resource quota set list", x.who(), s.Name)
		}
	}
}

func (x *call) editQuotas(g *given) {
	names := list(g.value())
	sets := x.cluster().ResourceQuotas()
	if len(names) > 0 {
		sets = x.chosenQuotas(names)
	}
	text := qconf.FormatResourceQuotas(sets, x.style())
	next, ok := x.edited("rqs", text)
	switch {
	case !ok:
	case string(next) == text:
		x.fail(1, "file unchanged")
	default:
		x.modifySets("", next, names)
	}
}

func (x *call) modifiedQuotas(g *given) {
	data, ok := x.configured(g.values[0])
	if !ok {
		x.warn("error reading in file")
		return
	}
	var names []string
	if len(g.values) > 1 {
		names = list(g.values[1])
	}
	x.modifySets(g.values[0], data, names)
}

// modifySets replaces the sets with some names, or all of them.
func (x *call) modifySets(file string, data []byte, names []string) {
	sets, ok := x.readSets(file, data)
	if !ok {
		return
	}
	current := x.cluster().ResourceQuotas()
	if len(names) == 0 {
		if x.writeSets(sets) {
			for _, s := range current {
				x.warn("%s removed %q from resource quota set list", x.who(), s.Name)
			}
			for _, s := range sets {
				x.warn("%s added %q to resource quota set list", x.who(), s.Name)
			}
		}
		return
	}
	for _, name := range names {
		if !slices.ContainsFunc(sets, func(s *quotaSet) bool { return s.Name == name }) {
			x.fail(1, "resource quota set %q not found in file %q", name, file)
			return
		}
	}
	all := slices.Clone(current)
	for _, s := range sets {
		if !slices.Contains(names, s.Name) {
			continue
		}
		i := slices.IndexFunc(all, func(o *quotaSet) bool { return o.Name == s.Name })
		if i < 0 {
			x.fail(1, "denied: resource quota set %q does not exist", s.Name)
			return
		}
		all[i] = s
	}
	if x.writeSets(all) {
		for _, s := range sets {
			x.warn("%s modified %q in resource quota set list", x.who(), s.Name)
		}
	}
}

func (x *call) deleteQuotas(g *given) {
	for _, name := range list(g.value()) {
		all := slices.Clone(x.cluster().ResourceQuotas())
		i := slices.IndexFunc(all, func(o *quotaSet) bool { return o.Name == name })
		if i < 0 {
			x.fail(1, "denied: resource quota set %q does not exist", name)
			continue
		}
		if x.writeSets(slices.Delete(all, i, i+1)) {
			x.warn("%s removed %q from resource quota set list", x.who(), name)
		}
	}
}

// writeSets replaces all sets. It writes one file, or one file per set, as the directory already does.
func (x *call) writeSets(sets []*quotaSet) bool {
	var writes []Write
	current := x.cluster().ResourceQuotas()
	if inQuotaFolder(current) {
		for _, s := range current {
			if !slices.ContainsFunc(sets, func(o *quotaSet) bool { return o.Name == s.Name }) {
				writes = append(writes, Write{Path: quotaFile + "/" + s.Name, Remove: true})
			}
		}
		for _, s := range sets {
			writes = append(writes, Write{Path: quotaFile + "/" + s.Name, Text: []byte(qconf.FormatResourceQuotas([]*quotaSet{s}, qconf.Wrapped))})
		}
	} else {
		writes = []Write{{Path: quotaFile, Text: []byte(qconf.FormatResourceQuotas(sets, qconf.Wrapped))}}
	}
	if err := x.write(writes...); err != nil {
		x.refuseChange(nil, "", err)
		return false
	}
	return true
}
