package quota

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/value"
)

// Selection says which rows List gives (qquota(1), OPTIONS). An empty list selects
// all. Who calls qquota without -u is shown what concerns himself: Users is the
// caller then.
type Selection struct {
	Users, Projects, PEs, Queues []string // names and patterns
	Hosts                        []string // expressions on hosts, and on host groups after an @
	Resources                    []string // complexes
}

// Row is a row of qquota(1): a limit, and what is used of it under one key.
type Row struct {
	Rule      string // SET/RULE
	Attribute string // the complex
	// Used is empty for what is not consumed.
	Used, Limit string
	// Filter are the filters of the rule with their names; of those in braces, the
	// consumer that the row is about.
	Filter string
}

// LimitText is the limit as qquota shows it: slots=3/5, or rank=5.
func (r *Row) LimitText() string {
	if r.Used == "" {
		return r.Attribute + "=" + r.Limit
	}
	return r.Attribute + "=" + r.Used + "/" + r.Limit
}

// List gives the rows of qquota(1): in the order of the rules, a row for each limit
// of which something is used, by the key under which it is, in the order in which
// that began, and one for each limit on what is not consumed.
func (u *Usage) List(s Selection, v Values) ([]Row, error) {
	sel, err := u.sets.selector(s)
	if err != nil {
		return nil, err
	}
	byLimit := map[[3]int][]*counter{}
	for i := range u.counters {
		c := &u.counters[i]
		if j, inUse := u.at[c.id]; inUse && int(j) == i {
			n := u.sets.counters[c.id>>placeBits]
			at := [3]int{n.set, n.rule, n.limit}
			byLimit[at] = append(byLimit[at], c)
		}
	}
	var rows []Row
	for i := range u.sets.sets {
		for j, r := range u.sets.sets[i].rules {
			if !sel.rule(r) {
				continue
			}
			for k := range r.limits {
				l := &r.limits[k]
				if !sel.resource(l.attribute) {
					continue
				}
				if !l.consumes() {
					rows = append(rows, Row{Rule: r.name, Attribute: l.attribute, Limit: l.text, Filter: r.filterText(Consumer{}, "", "")})
					continue
				}
				used := byLimit[[3]int{i, j, k}]
				slices.SortFunc(used, func(a, b *counter) int { return cmp.Compare(a.since, b.since) })
				for _, c := range used {
					if row, selected := u.row(&sel, c, v); selected {
						rows = append(rows, row)
					}
				}
			}
		}
	}
	return rows, nil
}

// row is the row of a counter.
func (u *Usage) row(sel *selector, c *counter, v Values) (Row, bool) {
	r, limit, who, place := u.sets.counted(c.id)
	queue, host := u.sets.placeNames(r, place)
	if !sel.key(r, who, queue, host) {
		return Row{}, false
	}
	l := &r.limits[limit]
	at := int32(-1)
	if r.eachHost {
		at = int32((place - 1) % uint64(max(1, len(u.sets.hosts))))
	}
	used := c.amount.Float()
	if l.relop == value.Exclusive {
		used = float64(c.exclusive)
	}
	return Row{
		Rule: r.name, Attribute: l.attribute,
		Used:   value.OfNumber(l.typ, used).Format(value.QStat),
		Limit:  l.at(v, at).Format(value.QStat),
		Filter: r.filterText(who, queue, host),
	}, true
}

// filterText are the filters, with the actual consumer for those in braces.
func (r *rule) filterText(who Consumer, queue, host string) string {
	var parts []string
	for _, f := range []struct {
		word   string
		filter qconf.QuotaFilter
		actual string
	}{
		{"users", r.source.Users, who.User},
		{"projects", r.source.Projects, who.Project},
		{"pes", r.source.PEs, who.PE},
		{"queues", r.source.Queues, queue},
		{"hosts", r.source.Hosts, host},
	} {
		switch {
		case !f.filter.Set():
		case f.filter.Expanded && f.actual != "":
			parts = append(parts, f.word+" "+f.actual)
		default:
			f.filter.Expanded = false
			parts = append(parts, f.word+" "+f.filter.String())
		}
	}
	return strings.Join(parts, " ")
}

// selector is a Selection that can be asked.
type selector struct {
	of    Selection
	hosts []*expression.HostReference
}

func (s *Sets) selector(of Selection) (selector, error) {
	sel := selector{of: of}
	for _, h := range of.Hosts {
		r, err := expression.CompileHostReference(s.names, h)
		if err != nil {
			return sel, err
		}
		sel.hosts = append(sel.hosts, r)
	}
	return sel, nil
}

func (s *selector) resource(name string) bool {
	return len(s.of.Resources) == 0 || slices.Contains(s.of.Resources, name)
}

// rule reports whether a rule can be about what is selected.
func (s *selector) rule(r *rule) bool {
	return selects(s.of.Users, func(name string) bool { return r.users.admits(name, "") }) &&
		selects(s.projects(), func(name string) bool { return r.projects.admits(name, "") }) &&
		selects(s.of.PEs, func(name string) bool { return r.pes.admits(name, "") }) &&
		selects(s.of.Queues, func(name string) bool { return r.queueNames.admits(name, "") })
}

// projects are the projects that are asked for. The original asks for * if none are, so
// that it never shows rules for jobs without a project, projects !*.
func (s *selector) projects() []string {
	if len(s.of.Projects) == 0 {
		return []string{"*"}
	}
	return s.of.Projects
}

func selects(names []string, admits func(string) bool) bool {
	return len(names) == 0 || slices.ContainsFunc(names, admits)
}

// key reports whether a row is about what is selected.
func (s *selector) key(r *rule, who Consumer, queue, host string) bool {
	match := func(each bool, patterns []string, name string) bool {
		return !each || len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
			return p == name || expression.CompilePattern(false, p).Match(name)
		})
	}
	return match(r.eachUser, s.of.Users, who.User) && match(r.eachProject, s.of.Projects, who.Project) &&
		match(r.eachPE, s.of.PEs, who.PE) && match(r.eachQueue, s.of.Queues, queue) &&
		(!r.eachHost || len(s.hosts) == 0 || slices.ContainsFunc(s.hosts, func(h *expression.HostReference) bool {
			return h.Match(host, nil)
		}))
}
