package qconf

import (
	"fmt"
	"slices"
	"strings"
)

// HostGroup is an object of hostgroup(5).
type HostGroup struct {
	Text
	Name  string   // group_name, with its @
	Hosts []string // hostlist: host names and @groups, in the order of the file
}

var hostGroupTable = table[HostGroup]{
	object: "host group",
	manual: "hostgroup(5)",
	rows: []attribute[HostGroup]{
		{name: "group_name", required: true, kind: kind[HostGroup]{read: func(g *HostGroup, s string) (string, error) {
			g.Name = s
			return s, checkGroupName(s)
		}}},
		row("hostlist", none, hosts(func(g *HostGroup) *[]string { return &g.Hosts })),
	},
}

// ParseHostGroup reads a host group in the notation of hostgroup(5). file is
// only used in errors, which are all *Error, joined.
func ParseHostGroup(file string, data []byte) (*HostGroup, error) {
	return whole(newHostGroup(hostGroupTable.parse(file, data)))
}

// With returns the group with one attribute changed, or the reason why it
// cannot have that value.
func (g *HostGroup) With(attribute, value string) (*HostGroup, error) {
	return whole(newHostGroup(hostGroupTable.with(g.Text, attribute, value)))
}

func newHostGroup(text Text, g HostGroup, err error) (*HostGroup, error) {
	g.Text = text
	return &g, err
}

// HostGroups are all host groups of a cluster. Every subgroup is one of them, and no group contains
// itself. A nil *HostGroups has no groups.
type HostGroups struct {
	groups map[string]*HostGroup
	hosts  map[string]*hostSet // of each group, with its subgroups resolved
}

// hostSet is a set of hosts whose names are compared as SameHost does.
type hostSet struct {
	inOrder []string
	names   map[string]bool // in small letters
	short   map[string]bool // the same without domains
}

func newHostSet() *hostSet {
	return &hostSet{names: map[string]bool{}, short: map[string]bool{}}
}

func (s *hostSet) add(host string) {
	low := strings.ToLower(host)
	if s.names[low] {
		return
	}
	s.inOrder = append(s.inOrder, host)
	s.names[low], s.short[ShortName(low)] = true, true
}

func (s *hostSet) contains(host string) bool {
	if s == nil {
		return false
	}
	low := strings.ToLower(host)
	if short := ShortName(low); short != low {
		return s.names[low] || s.names[short]
	}
	return s.short[low]
}

// NewHostGroups resolves the groups. Its errors are *Error, joined: one for
// each name that two groups have, each member group that does not exist, and
// each circle.
func NewHostGroups(groups ...*HostGroup) (*HostGroups, error) {
	return whole(newHostGroups(groups, func(string) bool { return false }))
}

// newHostGroups returns the valid host groups together with the errors in the others. refused names
// groups that could not be read, and whose existence is therefore unknown.
func newHostGroups(groups []*HostGroup, refused func(name string) bool) (*HostGroups, error) {
	all := &HostGroups{groups: map[string]*HostGroup{}, hosts: map[string]*hostSet{}}
	var errs []error
	for _, g := range groups {
		if other := all.groups[g.Name]; other != nil {
			errs = append(errs, g.errorAt("group_name", g.Name, fmt.Sprintf("host group %q is already in %q", g.Name, other.file), nil))
			continue
		}
		all.groups[g.Name] = g
	}
	for _, name := range all.Names() {
		g := all.groups[name]
		for _, member := range g.Hosts {
			if strings.HasPrefix(member, "@") && all.groups[member] == nil && !refused(member) {
				errs = append(errs, g.errorAt("hostlist", member, fmt.Sprintf("host group %q does not exist", member), ErrNotFound))
			}
		}
	}
	r := resolver{all: all, state: map[string]int{}}
	for _, name := range all.Names() {
		r.resolve(name)
	}
	return all, errJoin(errs, r.errs...)
}

// resolver walks the groups depth first. A group that it meets on the path of groups that it is
// resolving closes a circle.
type resolver struct {
	all   *HostGroups
	state map[string]int // 0 not met, 1 on the path, 2 done
	path  []string
	errs  []error
}

func (r *resolver) resolve(name string) {
	g := r.all.groups[name]
	if g == nil || r.state[name] == 2 {
		return
	}
	if r.state[name] == 1 {
		circle := append(slices.Clone(r.path[slices.Index(r.path, name):]), name)
		r.errs = append(r.errs, g.errorAt("hostlist", strings.Join(g.Hosts, " "), "host groups form a circle: "+strings.Join(circle, " -> "), nil))
		return
	}
	r.state[name] = 1
	r.path = append(r.path, name)
	for _, member := range g.Hosts {
		if strings.HasPrefix(member, "@") {
			r.resolve(member)
		}
	}
	r.all.hosts[name] = r.all.set(g.Hosts)
	r.path = r.path[:len(r.path)-1]
	r.state[name] = 2
}

// Names returns the names of the groups, sorted.
func (g *HostGroups) Names() []string {
	if g == nil {
		return nil
	}
	return sortedKeys(g.groups)
}

// Group returns a group by its name, or nil.
func (g *HostGroups) Group(name string) *HostGroup {
	if g == nil {
		return nil
	}
	return g.groups[name]
}

// Hosts returns the hosts of a group and of its subgroups, each once. Hosts that the group names
// itself come first.
func (g *HostGroups) Hosts(name string) []string {
	if g == nil || g.hosts[name] == nil {
		return nil
	}
	return g.hosts[name].inOrder
}

// Contains reports whether a group or one of its subgroups names the host, in
// the sense of SameHost. No host is in a group that does not exist.
func (g *HostGroups) Contains(name, host string) bool {
	return g != nil && g.hosts[name].contains(host)
}

// Resolve returns the hosts of a list of host names and @groups, each once: first the hosts that
// the list names, then the hosts of its groups. Grid Engine creates the instances of a queue in
// this order (tested).
func (g *HostGroups) Resolve(list []string) []string { return g.set(list).inOrder }

// set returns the hosts of a list. The groups in the list must be resolved already.
func (g *HostGroups) set(list []string) *hostSet {
	set := newHostSet()
	for _, item := range list {
		if !strings.HasPrefix(item, "@") {
			set.add(item)
		}
	}
	for _, item := range list {
		if strings.HasPrefix(item, "@") {
			for _, host := range g.Hosts(item) {
				set.add(host)
			}
		}
	}
	return set
}
