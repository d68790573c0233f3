package quota

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
)

// selector is a Selection prepared for queries. Both options and filters may be patterns; it
// compares them in both directions.
type selector struct {
	of     Selection
	sets   *Sets
	groups [][]string // of each host
}

func newSelector(s *Sets, of Selection) selector {
	sel := selector{of: of, sets: s, groups: make([][]string, len(s.hosts))}
	for i, h := range s.hosts {
		sel.groups[i] = s.groupsOf(h)
	}
	return sel
}

func (s *selector) resource(l *limit) bool {
	return len(s.of.Resources) == 0 || slices.Contains(s.of.Resources, l.attribute) || slices.Contains(s.of.Resources, l.shortcut)
}

// all selects all names, as an option and as a filter.
const all = "*"

// isAll reports whether a pattern matches all that the pattern * does.
func isAll(pattern string) bool { return match(pattern, all) }

// match reports whether a pattern or name matches a name.
func match(pattern, name string) bool {
	return pattern == name || isPattern(pattern) && expression.CompilePattern(false, pattern).Match(name)
}

// matchHost does what match does, for the names of hosts and host groups.
func matchHost(names expression.HostNames, pattern, name string) bool {
	if isPattern(pattern) {
		return expression.CompilePattern(true, pattern).Match(name)
	}
	return names.Normalize(pattern) == names.Normalize(name)
}

// rule reports whether a rule can have selected rows.
func (s *selector) rule(r *rule) bool {
	return s.any(s.of.Users, func(v string) bool { return s.user(r.source.Users, v) }) &&
		s.any(s.of.Projects, func(v string) bool { return admitsName(r.source.Projects, v) }) &&
		s.any(s.of.PEs, func(v string) bool { return admitsName(r.source.PEs, v) }) &&
		s.any(s.of.Queues, func(v string) bool { return admitsName(r.source.Queues, v) }) &&
		s.any(s.of.Hosts, func(v string) bool { return s.matchesHost(r.source.Hosts, v) })
}

func (s *selector) any(options []string, admits func(option string) bool) bool {
	if len(options) == 0 {
		return admits(all)
	}
	return slices.ContainsFunc(options, admits)
}

// admits reports whether a filter admits a name that matches an option.
func admits(f qconf.QuotaFilter, excluded, included func(item string) bool) bool {
	return !slices.ContainsFunc(f.XScope, excluded) && (len(f.Scope) == 0 || slices.ContainsFunc(f.Scope, included))
}

// admitsName does it for projects, parallel environments and queues.
func admitsName(f qconf.QuotaFilter, option string) bool {
	return admits(f,
		func(item string) bool { return match(item, option) || option != all && match(option, item) },
		func(item string) bool { return match(item, option) || match(option, item) })
}

// user reports whether a filter selects a user for an option. A user set is excluded if the filter
// excludes one of its members.
func (s *selector) user(f qconf.QuotaFilter, option string) bool {
	switch {
	case strings.HasPrefix(option, "@"):
		return f.Expanded
	case isAll(option):
		return !slices.ContainsFunc(f.XScope, isAll)
	}
	inSet := func(item string) bool {
		list, isList := strings.CutPrefix(item, "@")
		return isList && slices.ContainsFunc(s.members(list), func(member string) bool { return match(option, member) })
	}
	return admits(f,
		func(item string) bool { return match(item, option) || inSet(item) },
		func(item string) bool { return match(item, option) || match(option, item) || inSet(item) })
}

// members returns the entries of the user sets that match a name or pattern.
func (s *selector) members(list string) []string {
	var found []string
	for _, u := range s.sets.userSets {
		if !match(list, u.Name) {
			continue
		}
		found = append(found, u.Users...)
		for _, g := range u.UserGroups {
			found = append(found, "@"+g)
		}
	}
	return found
}

// matchesHost does it for hosts and host groups.
func (s *selector) matchesHost(f qconf.QuotaFilter, option string) bool {
	if isAll(option) {
		return !slices.ContainsFunc(f.XScope, isAll)
	}
	ofGroup := strings.HasPrefix(option, "@")
	// common: one of item and option is a group, and they have a host in common.
	common := func(item string) bool {
		if strings.HasPrefix(item, "@") == ofGroup {
			return false
		}
		group, host := item, option
		if ofGroup {
			group, host = option, item
		}
		for i, h := range s.sets.hosts {
			if matchHost(s.sets.names, host, h) && slices.ContainsFunc(s.groups[i], func(g string) bool { return matchHost(expression.HostNames{}, group, g) }) {
				return true
			}
		}
		return false
	}
	return admits(f,
		func(item string) bool { return s.means(item, option) || common(item) },
		func(item string) bool {
			return s.means(item, option) || matchHost(expression.HostNames{}, option, item) || common(item)
		})
}

// means reports whether an expression of a filter, or an option, matches a host or a group.
func (s *selector) means(item, name string) bool {
	r, err := expression.CompileHostReference(s.sets.names, item)
	return err == nil && r.Expression().Match(name)
}

// rank holds, for each part of a row's key, the index of the first option that matches it. The rows
// of a limit are sorted by rank.
type rank [5]int

// key reports whether a row is selected, and its rank.
func (s *selector) key(r *rule, who Consumer, queue, host string) (at rank, selected bool) {
	isUser := func(option, name string) bool {
		if list, isList := strings.CutPrefix(option, "@"); isList {
			return slices.Contains(s.members(list), name) && s.user(r.source.Users, name)
		}
		return match(option, name)
	}
	isHost := func(option, name string) bool {
		return strings.HasPrefix(option, "@") || matchHost(s.sets.names, option, name)
	}
	for i, part := range []struct {
		options []string
		name    string
		means   func(option, name string) bool
	}{
		{s.of.Users, who.User, isUser},
		{s.of.Projects, who.Project, match},
		{s.of.PEs, who.PE, match},
		{s.of.Queues, queue, match},
		{s.of.Hosts, host, isHost},
	} {
		if part.name == "" || len(part.options) == 0 {
			continue
		}
		at[i] = slices.IndexFunc(part.options, func(option string) bool { return part.means(option, part.name) })
		if at[i] < 0 {
			return at, false
		}
	}
	return at, true
}
