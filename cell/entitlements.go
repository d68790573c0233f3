package cell

import (
	"fmt"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// entitlements is the state of the ticket policies: the users, projects and departments of the
// cluster by number, their shares, and their usage. Numbers stay the same when the configuration
// changes, since the usage of users and projects is stored by number.
type entitlements struct {
	scheduler.Entitlements
	users, projects, departments names
	automatic                    map[string]expiry // users whose object was made for a job
	room                         int               // the number of users for which the tree has room
	inTree                       map[string]bool   // names of its nodes
	decay                        *tickets.Decay
	halftimes                    halftimes // half-lives of the decay
}

// expiry is the end of an automatic user object (sge_conf(5), auto_user_delete_time).
type expiry struct {
	at  int64 // time of the removal; 0 for never
	due int64 // time of the cell's next check; 0 for never
}

func newEntitlements() entitlements {
	e := entitlements{users: newNames(), projects: newNames(), departments: newNames(), automatic: map[string]expiry{}}
	e.Ledger = &tickets.Ledger{}
	return e
}

// renew returns the entitlements for another configuration. The usage of removed users and projects
// is lost.
func (e *entitlements) renew(cluster *qconf.Cluster) entitlements {
	next := entitlements{
		users: e.users.clone(), projects: e.projects.clone(), departments: newNames(),
		automatic: map[string]expiry{}, decay: e.decay, halftimes: e.halftimes,
	}
	next.Ledger = &tickets.Ledger{Users: slices.Clone(e.Ledger.Users), Projects: slices.Clone(e.Ledger.Projects)}
	next.Users, next.Projects = slices.Clone(e.Users), slices.Clone(e.Projects)
	for i := range next.Ledger.Users {
		next.Ledger.Users[i].ByProject = slices.Clone(next.Ledger.Users[i].ByProject)
	}
	for _, name := range e.users.list {
		if name == "" {
			continue
		}
		if _, err := cluster.User(name); err == nil {
			continue
		}
		if expiry, automatic := e.automatic[name]; automatic {
			next.automatic[name] = expiry
		} else {
			next.removeUser(name)
		}
	}
	for _, name := range e.projects.list {
		if _, err := cluster.Project(name); err != nil && name != "" {
			next.removeProject(name)
		}
	}
	next.read(cluster)
	return next
}

// read reads the objects of a configuration.
func (e *entitlements) read(cluster *qconf.Cluster) {
	for _, name := range cluster.UserNames() {
		if u, err := cluster.User(name); err == nil {
			e.addUser(name, tickets.Entity{FunctionalShares: float64(u.FunctionShare), OverrideTickets: float64(u.OverrideTicket)})
		}
	}
	for _, name := range cluster.ProjectNames() {
		if p, err := cluster.Project(name); err == nil {
			i := e.projects.add(name)
			e.Projects = grown(e.Projects, i)
			e.Ledger.Projects = grown(e.Ledger.Projects, i)
			e.Projects[i] = tickets.Entity{FunctionalShares: float64(p.FunctionShare), OverrideTickets: float64(p.OverrideTicket)}
		}
	}
	e.Departments = nil
	for _, name := range cluster.UserSetNames() {
		if s, err := cluster.UserSet(name); err == nil && s.Department {
			i := e.departments.add(name)
			e.Departments = grown(e.Departments, i)
			e.Departments[i] = tickets.Entity{FunctionalShares: float64(s.FunctionShare), OverrideTickets: float64(s.OverrideTicket)}
		}
	}
	e.plant(cluster)
}

// grown returns the list, extended to contain index i.
func grown[T any](list []T, i int32) []T {
	for int(i) >= len(list) {
		var zero T
		list = append(list, zero)
	}
	return list
}

func (e *entitlements) addUser(name string, entity tickets.Entity) {
	known := e.users.indexOf(name) != tickets.None
	i := e.users.add(name)
	e.Users, e.Ledger.Users = grown(e.Users, i), grown(e.Ledger.Users, i)
	if !known {
		e.Ledger.Users[i] = tickets.UserUsage{}
	}
	e.Users[i] = entity
}

func (e *entitlements) removeUser(name string) {
	if i := e.users.indexOf(name); i != tickets.None {
		e.Users[i], e.Ledger.Users[i] = tickets.Entity{}, tickets.UserUsage{}
		e.users.remove(name)
		delete(e.automatic, name)
	}
}

func (e *entitlements) removeProject(name string) {
	i := e.projects.indexOf(name)
	e.Projects[i], e.Ledger.Projects[i] = tickets.Entity{}, tickets.StampedUsage{}
	for u := range e.Ledger.Users {
		l := &e.Ledger.Users[u]
		l.ByProject = slices.DeleteFunc(l.ByProject, func(p tickets.ProjectUsage) bool { return p.Project == i })
	}
	e.projects.remove(name)
}

// plant builds the share tree. Nodes of users without an object are groups without children. The
// original refuses such a tree; here these nodes get no share.
func (e *entitlements) plant(cluster *qconf.Cluster) {
	e.Tree, e.inTree = nil, map[string]bool{}
	tree := cluster.ShareTree()
	if tree == nil || tree.Root == nil {
		return
	}
	var nodes []tickets.Node
	var add func(n *qconf.ShareNode, parent int32)
	add = func(n *qconf.ShareNode, parent int32) {
		node := tickets.Node{Name: n.Name, Kind: tickets.Group, Index: tickets.None, Parent: parent, Shares: float64(n.Shares)}
		switch {
		case parent == tickets.None:
		case n.Default():
			node.Kind = tickets.DefaultNode
		case n.Project && e.projects.indexOf(n.Name) != tickets.None:
			node.Kind, node.Index = tickets.ProjectNode, e.projects.indexOf(n.Name)
		case !n.Project && len(n.Children) == 0 && e.users.indexOf(n.Name) != tickets.None:
			node.Kind, node.Index = tickets.UserNode, e.users.indexOf(n.Name)
		}
		e.inTree[n.Name] = true
		at := int32(len(nodes))
		nodes = append(nodes, node)
		for _, child := range n.Children {
			add(child, at)
		}
	}
	add(tree.Root, tickets.None)
	e.room = 2*len(e.users.list) + 16
	if t, err := tickets.NewTree(nodes, e.room, len(e.projects.list)); err == nil {
		e.Tree = t
	}
}

// usageTypes maps the names of usage in configurations (sched_conf(5), usage_weight_list) to
// tickets.UsageType.
var usageTypes = map[string]tickets.UsageType{
	"cpu": tickets.CPU, "mem": tickets.Mem, "io": tickets.IO, "finished_jobs": tickets.FinishedJobs,
}

// halftimes are the half-lives of usage (sched_conf(5), halftime and halflife_decay_list).
type halftimes struct {
	hours      float64
	exceptions []tickets.HalfLife
}

func (h halftimes) equal(o halftimes) bool {
	return h.hours == o.hours && slices.Equal(h.exceptions, o.exceptions)
}

// setHalftimes changes the half-lives from now on.
func (e *entitlements) setHalftimes(h halftimes) {
	e.halftimes, e.decay = h, tickets.NewDecay(h.hours, h.exceptions)
}

// halftimesOf returns the half-lives of a configuration.
func halftimesOf(conf *qconf.SchedulerConfig) halftimes {
	h := halftimes{hours: conf.Halftime.Hours()}
	for _, e := range conf.HalflifeDecayList {
		if t, ok := usageTypes[e.Usage]; ok {
			h.exceptions = append(h.exceptions, tickets.HalfLife{Type: t, Minutes: e.Time.Minutes()})
		}
	}
	return h
}

// knowsUser reports whether a user has an object.
func (e *entitlements) knowsUser(name string) bool { return e.users.indexOf(name) != tickets.None }

// isAutomatic reports whether the object of a user was made for a job.
func (e *entitlements) isAutomatic(name string) bool {
	_, ok := e.automatic[name]
	return ok
}

// decayUntil decays the stored usage. If the half-lives have changed, it decays the usage so far
// with the previous ones. begins reports whether there were none before.
func (e *entitlements) decayUntil(now int64, next halftimes) (begins, changed bool) {
	if e.decay == nil {
		begins = true
		e.setHalftimes(next)
	}
	e.Ledger.Decay(e.decay, now)
	if !e.halftimes.equal(next) {
		changed = true
		e.setHalftimes(next)
	}
	return begins, changed
}

// unstamped returns the users and projects whose usage has not begun to decay.
func (e *entitlements) unstamped() (users, projects []string) {
	for i := range e.Ledger.Users {
		if name := e.users.name(int32(i)); name != "" && e.Ledger.Users[i].Stamp == 0 {
			users = append(users, name)
		}
	}
	for i := range e.Ledger.Projects {
		if name := e.projects.name(int32(i)); name != "" && e.Ledger.Projects[i].Stamp == 0 {
			projects = append(projects, name)
		}
	}
	return users, projects
}

// setUserUsage sets the usage of a user, in a project or, with "", outside of projects.
func (e *entitlements) setUserUsage(user, project string, usage tickets.Usage, stamp int64) error {
	u := e.users.indexOf(user)
	if u == tickets.None {
		return fmt.Errorf("cannot set the usage of user %q: there is no such user object", user)
	}
	p := e.projects.indexOf(project)
	if project != "" && p == tickets.None {
		return fmt.Errorf("cannot set the usage of user %q in project %q: there is no such project", user, project)
	}
	l := &e.Ledger.Users[u]
	l.Stamp = stamp
	if project == "" {
		l.Usage = usage
		return nil
	}
	if l.In(p) == nil {
		// Booking zero makes the entry and does not change the project's usage.
		e.Ledger.Book(u, p, &tickets.Amounts{}, &tickets.Amounts{})
	}
	*l.In(p) = usage
	return nil
}

// setProjectUsage sets the usage of a project.
func (e *entitlements) setProjectUsage(project string, usage tickets.Usage, stamp int64) error {
	p := e.projects.indexOf(project)
	if p == tickets.None {
		return fmt.Errorf("cannot set the usage of project %q: there is no such project", project)
	}
	e.Ledger.Projects[p] = tickets.StampedUsage{Usage: usage, Stamp: stamp}
	return nil
}

// clearUsage clears the usage of all users and projects.
func (e *entitlements) clearUsage(now int64) {
	for i := range e.Ledger.Users {
		e.Ledger.Users[i].Clear(now)
	}
	for i := range e.Ledger.Projects {
		e.Ledger.Projects[i].Clear(now)
	}
}

// entitleAgain calls entitle for jobs that the scheduler already has.
func (c *Cell) entitleAgain(is func(*Job) bool) {
	for _, id := range c.ids() {
		j := c.jobs[id]
		if !is(j) {
			continue
		}
		queued := !j.sched.Tasks.IsEmpty()
		if queued {
			c.state.Dequeue(&j.sched)
		}
		c.entitle(j)
		if queued {
			c.letSchedule(j)
		}
	}
}

// entitle determines the numbers by which the ticket policies identify the user, project and
// department of a job.
func (c *Cell) entitle(j *Job) {
	s := &j.sched
	user, project := c.policy.users.indexOf(j.Owner()), c.policy.projects.indexOf(j.Project)
	s.User, s.Project = tickets.RefTo(user), tickets.RefTo(project)
	s.Department = tickets.RefTo(c.policy.departments.indexOf(c.Department(j.Owner(), j.Group)))
	s.Leaf = 0
	if c.policy.Tree != nil {
		s.Leaf = c.policy.Tree.Leaf(user, project)
	}
	// A running task keeps its start values, except for the user and project: its usage follows
	// those of the job.
	for _, t := range j.tasks {
		if t.run != nil && t.run.Job != s {
			f := t.run.Job
			f.User, f.Project, f.Department, f.Leaf = s.User, s.Project, s.Department, s.Leaf
		}
	}
}

// Department returns the department of a user: the first user set of that type that contains the
// user, otherwise the first that contains the group, otherwise defaultdepartment (access_list(5)).
func (c *Cell) Department(user, group string) string {
	byGroup := ""
	for _, name := range c.cluster.UserSetNames() {
		s, err := c.cluster.UserSet(name)
		if err != nil || !s.Department {
			continue
		}
		if slices.Contains(s.Users, user) {
			return name
		}
		if byGroup == "" && slices.Contains(s.UserGroups, group) {
			byGroup = name
		}
	}
	if byGroup != "" {
		return byGroup
	}
	return qconf.DefaultDepartment
}

// Departments returns the names of the departments in the order of the Entitlements. In this list,
// and in those of Users and Projects, the name of a removed object is empty.
func (c *Cell) Departments() []string { return c.policy.departments.list }

// Users returns the names of the users that have an object, by their numbers.
func (c *Cell) Users() []string { return c.policy.users.list }

// Projects returns the names of the projects, by their numbers.
func (c *Cell) Projects() []string { return c.policy.projects.list }

// Entitled returns the shares and tickets of users, projects and departments, and their past usage.
// Callers must not change it.
func (c *Cell) Entitled() *scheduler.Entitlements { return &c.policy.Entitlements }
