package quota

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
)

// nameFilter is a filter on users, projects, parallel environments or cluster
// queues.
type nameFilter struct {
	scope, xscope *nameSet // nil for none
}

// admits reports whether the filter admits a name. The name "", of a job without a project or
// parallel environment, is in no list: a filter that only excludes names admits it.
func (f *nameFilter) admits(name, group string) bool {
	if f.xscope != nil && f.xscope.contains(name, group) {
		return false
	}
	return f.scope == nil || f.scope.contains(name, group)
}

// nameSet is a list of names and patterns.
type nameSet struct {
	items    []string // as they are written; none for a list of users
	exact    map[string]struct{}
	groups   map[string]struct{} // primary groups that are in a user set
	patterns []*expression.Pattern
}

func (s *nameSet) contains(name, group string) bool {
	if name == "" {
		return false
	}
	if _, ok := s.exact[name]; ok {
		return true
	}
	for _, p := range s.patterns {
		if p.Match(name) {
			return true
		}
	}
	if _, ok := s.groups[group]; ok {
		return true
	}
	// The original also takes the name as a pattern for the items.
	if len(s.items) > 0 && isPattern(name) {
		p := expression.CompilePattern(false, name)
		return slices.ContainsFunc(s.items, p.Match)
	}
	return false
}

// add adds a name or a pattern.
func (s *nameSet) add(item string) {
	if isPattern(item) {
		s.patterns = append(s.patterns, expression.CompilePattern(false, item))
	}
	s.exact[item] = struct{}{}
}

func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// compileNames compiles a filter on names for which there are no user sets.
func compileNames(f qconf.QuotaFilter) nameFilter {
	compile := func(items []string) *nameSet {
		if len(items) == 0 {
			return nil
		}
		s := &nameSet{items: items, exact: make(map[string]struct{}, len(items))}
		for _, item := range items {
			s.add(item)
		}
		return s
	}
	return nameFilter{scope: compile(f.Scope), xscope: compile(f.XScope)}
}

// compileUsers compiles a filter on users: names, patterns, and after an @ names and patterns of
// user sets.
func compileUsers(f qconf.QuotaFilter, sets []*qconf.UserSet) nameFilter {
	compile := func(items []string) *nameSet {
		if len(items) == 0 {
			return nil
		}
		s := &nameSet{exact: make(map[string]struct{}, len(items)), groups: map[string]struct{}{}}
		for _, item := range items {
			list, isList := strings.CutPrefix(item, "@")
			if !isList {
				s.add(item)
				continue
			}
			p := expression.CompilePattern(false, list)
			for _, u := range sets {
				if u.Name == list || p.Match(u.Name) {
					s.addSet(u)
				}
			}
		}
		return s
	}
	return nameFilter{scope: compile(f.Scope), xscope: compile(f.XScope)}
}

// addSet adds the members of a user set. Patterns have no meaning there.
func (s *nameSet) addSet(u *qconf.UserSet) {
	for _, name := range u.Users {
		s.exact[name] = struct{}{}
	}
	for _, name := range u.UserGroups {
		s.groups[name] = struct{}{}
	}
}

// places holds the queues or the hosts that a filter admits, by index.
type places struct {
	bits []uint64
	some bool // at least one is admitted
	all  bool
}

func newPlaces(n int) *places { return &places{bits: make([]uint64, (n+63)/64)} }

func (p *places) add(i int) { p.bits[i>>6] |= 1 << (i & 63) }

// has reports whether the filter admits a queue or host. A nil filter admits all.
func (p *places) has(i int32) bool {
	if p == nil {
		return true
	}
	w := int(uint32(i) >> 6)
	return w < len(p.bits) && p.bits[w]&(1<<(uint32(i)&63)) != 0
}

func (p *places) isAll() bool  { return p == nil || p.all }
func (p *places) isNone() bool { return p != nil && !p.some }

// finish computes some and all, after all admitted queues or hosts have been added.
func (p *places) finish(n int) *places {
	p.all = true
	for i := range n {
		if p.has(int32(i)) {
			p.some = true
		} else {
			p.all = false
		}
	}
	return p
}

func (k *compiler) queues(f qconf.QuotaFilter) *places {
	if !f.Set() {
		return nil
	}
	text := f.String()
	if p, known := k.queueOf[text]; known {
		return p
	}
	names := compileNames(f)
	p := newPlaces(len(k.c.Queues))
	for i, q := range k.c.Queues {
		if names.admits(q, "") {
			p.add(i)
		}
	}
	if k.queueOf == nil {
		k.queueOf = map[string]*places{}
	}
	k.queueOf[text] = p.finish(len(k.c.Queues))
	return p
}

// hosts compiles a filter on hosts. Rules with the same filter share the result.
func (k *compiler) hosts(f qconf.QuotaFilter) *places {
	if !f.Set() {
		return nil
	}
	scope, xscope := k.references(f.Scope), k.references(f.XScope)
	text := f.String()
	if p, known := k.hostLists[text]; known {
		return p
	}
	if k.hostIndex == nil {
		k.hostIndex = newHostIndex(&k.c)
		k.hostLists = map[string]*places{}
	}
	n := len(k.c.Hosts)
	p := newPlaces(n)
	if len(f.Scope) == 0 {
		for i := range n {
			p.add(i)
		}
	}
	for _, r := range scope {
		k.hostIndex.each(r, func(i int) { p.add(i) })
	}
	for _, r := range xscope {
		k.hostIndex.each(r, func(i int) { p.bits[i>>6] &^= 1 << (i & 63) })
	}
	k.hostLists[text] = p.finish(n)
	return p
}

func (k *compiler) references(items []string) []*expression.HostReference {
	var compiled []*expression.HostReference
	for _, item := range items {
		r, err := expression.CompileHostReference(k.c.HostNames, item)
		if err != nil {
			k.refuse("limit", item, fmt.Errorf("hosts: %w", err))
			continue
		}
		compiled = append(compiled, r)
	}
	return compiled
}

// hostIndex finds the hosts that match a reference.
type hostIndex struct {
	hosts  []string
	groups [][]string // by host
	byName map[string][]int
	in     map[string][]int // by the name of a group, normalized
}

func newHostIndex(c *Compilation) *hostIndex {
	x := &hostIndex{hosts: c.Hosts, groups: make([][]string, len(c.Hosts)), byName: make(map[string][]int, len(c.Hosts)), in: map[string][]int{}}
	for i, h := range c.Hosts {
		n := c.HostNames.Normalize(h)
		x.byName[n] = append(x.byName[n], i)
		if c.Groups == nil {
			continue
		}
		x.groups[i] = c.Groups(h)
		for _, g := range x.groups[i] {
			n := expression.HostNames{}.Normalize(g)
			x.in[n] = append(x.in[n], i)
		}
	}
	return x
}

func (x *hostIndex) each(r *expression.HostReference, found func(int)) {
	if name, plain := r.Expression().Name(); plain {
		of := x.byName
		if r.IsGroup() {
			of = x.in
		}
		for _, i := range of[name] {
			found(i)
		}
		return
	}
	for i, h := range x.hosts {
		if r.Match(h, func(string) []string { return x.groups[i] }) {
			found(i)
		}
	}
}
