package qconf

import (
	"slices"
	"strings"
)

// Host returns an execution host: the one with exactly this name, ignoring case, or otherwise one
// whose name SameHost accepts. The error wraps ErrNotFound. A host without an object has the
// default values.
func (c *Cluster) Host(name string) (*ExecHost, error) {
	low := strings.ToLower(name)
	if h := c.hosts[low]; h != nil {
		return h, nil
	}
	for _, other := range sortedKeys(c.hosts) {
		if SameHost(other, low) {
			return c.hosts[other], nil
		}
	}
	return find[ExecHost](nil, "host", name)
}

// HostNames returns the names of the execution hosts, sorted, without the global
// one, in small letters.
func (c *Cluster) HostNames() []string { return sortedKeys(c.hosts) }

// GlobalHost returns the host whose values hold for the whole cluster. It is
// never nil.
func (c *Cluster) GlobalHost() *ExecHost { return c.globalHost }

// Scheduler returns the configuration of the scheduler. It is never nil.
func (c *Cluster) Scheduler() *SchedulerConfig { return c.scheduler }

// Calendar returns a calendar by its name. The error wraps ErrNotFound.
func (c *Cluster) Calendar(name string) (*Calendar, error) {
	return find(c.calendars, "calendar", name)
}

// CalendarNames returns the names of the calendars, sorted.
func (c *Cluster) CalendarNames() []string { return sortedKeys(c.calendars) }

// UserSet returns an access list or department by its name. The error wraps
// ErrNotFound. The sets that every cluster has are always there.
func (c *Cluster) UserSet(name string) (*UserSet, error) {
	return find(c.userSets, "user set", name)
}

// UserSetNames returns the names of the user sets, sorted.
func (c *Cluster) UserSetNames() []string { return sortedKeys(c.userSets) }

// User returns a user object by its name. The error wraps ErrNotFound.
func (c *Cluster) User(name string) (*User, error) { return find(c.users, "user", name) }

// UserNames returns the names of the user objects, sorted.
func (c *Cluster) UserNames() []string { return sortedKeys(c.users) }

// Project returns a project by its name. The error wraps ErrNotFound.
func (c *Cluster) Project(name string) (*Project, error) {
	return find(c.projects, "project", name)
}

// ProjectNames returns the names of the projects, sorted.
func (c *Cluster) ProjectNames() []string { return sortedKeys(c.projects) }

// ResourceQuotas returns the resource quota sets: in the order of the file, or if they come from a
// folder, sorted by name.
func (c *Cluster) ResourceQuotas() []*ResourceQuotaSet { return slices.Clone(c.quotas) }

// ShareTree returns the share tree, or nil if there is none.
func (c *Cluster) ShareTree() *ShareTree { return c.shareTree }

// Missing returns the references to objects whose kind has no folder or file in the directory. An
// execution host does not need these objects; a scheduler does.
func (c *Cluster) Missing() []*Error { return slices.Clone(c.missing) }

// Canonical returns settings under the full names of their complexes: an administrator may use the
// shortcuts. Names that are not complexes stay unchanged.
func (c *Complexes) Canonical(settings []Setting) []Setting {
	named := slices.Clone(settings)
	for i, s := range named {
		if x, ok := c.Find(s.Name); ok {
			named[i].Name = x.Name
		}
	}
	return named
}
