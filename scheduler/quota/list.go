package quota

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

// Selection selects the rows of List (qquota(1), OPTIONS). An empty list selects all. qquota
// without -u shows the rows of its caller: Users is the caller then.
//
// A rule is selected if its filters admit a name that matches the option; of its rows, those are
// shown whose key matches. Attributes that are not in the key of a row do not hide it. Names may be
// patterns. A pattern also selects a rule that excludes only some of the matching names, except for
// patterns on projects, parallel environments or queues other than *. An empty list of these means
// *, so that a rule for jobs without one, such as projects !*, is never selected. Grid Engine does
// the same.
type Selection struct {
	// Users are names and patterns. For @list, a user set, only the rows of its members are shown.
	Users                 []string
	Projects, PEs, Queues []string
	Hosts                 []string // names and patterns, of hosts or, after an @, of host groups
	Resources             []string // names and shortcuts of complexes
}

// Row is a row of qquota(1): a limit, and its usage under one key.
type Row struct {
	Rule      string // SET/RULE
	Attribute string // the complex
	// Used is empty for resources that are not consumables.
	Used, Limit string
	// Filter are the filters of the rule with their names; filters in braces are replaced by the
	// consumer of the row.
	Filter string
}

// List returns the rows of qquota(1) in the order of the rules: for each limit on a consumable, a
// row for each key with usage, in the order in which the usage began; for each limit on another
// resource, one row.
//
// Options select the same rows as in Grid Engine: see Selection.
func (u *Usage) List(s Selection, v Values) []Row {
	sel := newSelector(u.sets, s)
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
				if !sel.resource(l) {
					continue
				}
				if !l.consumes() {
					rows = append(rows, Row{Rule: r.name, Attribute: l.attribute, Limit: l.text, Filter: r.filterText(nil, "", "")})
					continue
				}
				rows = append(rows, u.rows(&sel, byLimit[[3]int{i, j, k}], v)...)
			}
		}
	}
	return rows
}

// Row returns the row of one limit, for the consumer and the place of a counter, even without
// usage. ok is false if there is no such counter.
func (u *Usage) Row(id Counter, v Values) (row Row, ok bool) {
	if uint64(id>>placeBits) >= uint64(len(u.sets.counters)) {
		return Row{}, false
	}
	c := &counter{id: id}
	if i, inUse := u.at[id]; inUse {
		c = &u.counters[i]
	}
	row = u.row(c, v)
	if r, limit, _, _ := u.sets.counted(id); !r.limits[limit].consumes() {
		row.Used = ""
	}
	return row, true
}

// rows returns the rows of the counters of a limit.
func (u *Usage) rows(sel *selector, used []*counter, v Values) []Row {
	type ranked struct {
		rank rank
		*counter
	}
	var selected []ranked
	for _, c := range used {
		r, _, who, place := u.sets.counted(c.id)
		queue, host := u.sets.placeNames(r, place)
		if at, ok := sel.key(r, who, queue, host); ok {
			selected = append(selected, ranked{at, c})
		}
	}
	slices.SortFunc(selected, func(a, b ranked) int {
		return cmp.Or(slices.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.since, b.since))
	})
	rows := make([]Row, len(selected))
	for i, c := range selected {
		rows[i] = u.row(c.counter, v)
	}
	return rows
}

// row returns the row of a counter.
func (u *Usage) row(c *counter, v Values) Row {
	r, limit, who, place := u.sets.counted(c.id)
	queue, host := u.sets.placeNames(r, place)
	l := &r.limits[limit]
	at := int32(-1)
	if r.eachHost {
		at = int32((place - 1) % uint64(len(u.sets.hosts)))
	}
	used := c.amount.Float()
	if l.relop == value.Exclusive {
		used = float64(c.exclusive)
	}
	return Row{
		Rule: r.name, Attribute: l.attribute,
		Used:   value.OfNumber(l.typ, used).Format(value.QStat),
		Limit:  l.at(v, at).Format(value.QStat),
		Filter: r.filterText(&who, queue, host),
	}
}

// filterText returns the filters, with the actual consumer for those in braces. who is nil if there
// is none, for example for resources that are not consumables.
func (r *rule) filterText(who *Consumer, queue, host string) string {
	actual := Consumer{}
	if who != nil {
		actual = *who
	}
	var parts []string
	for _, f := range []struct {
		word   string
		filter qconf.QuotaFilter
		actual string
	}{
		{"users", r.source.Users, actual.User},
		{"projects", r.source.Projects, actual.Project},
		{"pes", r.source.PEs, actual.PE},
		{"queues", r.source.Queues, queue},
		{"hosts", r.source.Hosts, host},
	} {
		switch {
		case !f.filter.Set():
		case f.filter.Expanded && who != nil:
			parts = append(parts, f.word+" "+cmp.Or(f.actual, noText))
		default:
			parts = append(parts, f.word+" "+f.filter.String())
		}
	}
	return cmp.Or(strings.Join(parts, " "), noText)
}

// noText is printed instead of an empty value.
const noText = "-"
