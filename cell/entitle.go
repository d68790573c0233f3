package cell

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// entitlements are the users, projects and departments of the cluster by number, and what
// they have used. Numbers stay while the configuration changes, since usage belongs to
// users and projects.
type entitlements struct {
	scheduler.Entitlements
	users, projects, departments names
	automatic                    map[string]bool  // users whose object was made for a job
	expires                      map[string]int64 // when an automatic user goes
	due                          map[string]int64 // when that is looked at
	room                         int              // how many users the tree has room for
	inTree                       map[string]bool  // names of its nodes
	decay                        *tickets.Decay
	halftimes                    halftimes // what decay was made of
}

// names are numbers for names. That of a name that is gone is given to the next one.
type names struct {
	list  []string // empty for a number that is free
	index map[string]int32
}

func newNames() names { return names{index: map[string]int32{}} }

func (n *names) indexOf(name string) int32 {
	if i, ok := n.index[name]; ok && name != "" {
		return i
	}
	return tickets.None
}

func (n *names) add(name string) int32 {
	if i, ok := n.index[name]; ok {
		return i
	}
	i := slices.Index(n.list, "")
	if i < 0 {
		i = len(n.list)
		n.list = append(n.list, "")
	}
	n.list[i] = name
	n.index[name] = int32(i)
	return int32(i)
}

func (n *names) remove(name string) {
	if i, ok := n.index[name]; ok {
		n.list[i] = ""
		delete(n.index, name)
	}
}

func (n *names) clone() names {
	c := names{list: slices.Clone(n.list), index: map[string]int32{}}
	for i, name := range n.list {
		if name != "" {
			c.index[name] = int32(i)
		}
	}
	return c
}

func (e *entitlements) init(cluster *qconf.Cluster) {
	*e = entitlements{
		users: newNames(), projects: newNames(), departments: newNames(), automatic: map[string]bool{}, expires: map[string]int64{},
		due: map[string]int64{},
	}
	e.Ledger = &tickets.Ledger{}
	e.read(cluster)
}

// renew returns the entitlements for another configuration: who is gone has lost what he has
// used.
func (e *entitlements) renew(cluster *qconf.Cluster) entitlements {
	next := entitlements{
		users: e.users.clone(), projects: e.projects.clone(), departments: newNames(),
		automatic: map[string]bool{}, expires: map[string]int64{}, due: map[string]int64{}, decay: e.decay, halftimes: e.halftimes,
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
		if _, err := cluster.User(name); err != nil && !e.automatic[name] {
			next.removeUser(name)
		} else if err != nil {
			next.automatic[name] = true
			if at, ok := e.expires[name]; ok {
				next.expires[name], next.due[name] = at, e.due[name]
			}
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

// read takes in the objects of a configuration.
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

// grown returns the list, long enough for an index.
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
		delete(e.expires, name)
		delete(e.due, name)
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

// plant makes the share tree. Nodes of users that have no object are groups without
// children: the original refuses such a tree, and here it gives nothing to anybody.
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

// knowsUser reports whether a user has an object.
func (c *Cell) knowsUser(name string) bool { return c.policy.users.indexOf(name) != tickets.None }

// defaultProject returns the default project of a user object (user(5)), empty if there is none.
func (c *Cell) defaultProject(user string) string {
	if u, err := c.cluster.User(user); err == nil {
		return u.DefaultProject
	}
	if conf := c.cluster.Global(); conf.EnforceUser == qconf.EnforceUserAuto {
		return conf.AutoUserDefaultProject
	}
	return ""
}

// enrolUser makes an object for a user who has none (sge_conf(5), enforce_user auto), and
// keeps one that was made so for another auto_user_delete_time.
func (c *Cell) enrolUser(now int64, name string) {
	conf := c.cluster.Global()
	if !c.knowsUser(name) {
		if conf.EnforceUser != qconf.EnforceUserAuto {
			return
		}
		c.policy.addUser(name, tickets.Entity{FunctionalShares: float64(conf.AutoUserFShare), OverrideTickets: float64(conf.AutoUserOTicket)})
		c.policy.automatic[name] = true
		c.touchUser(name)
		c.usersChanged(name)
	}
	c.prolong(now, name)
}

// prolong sets when an automatic user goes. auto_user_delete_time 0 is never.
func (c *Cell) prolong(now int64, name string) {
	keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
	if !c.policy.automatic[name] || keep == 0 {
		return
	}
	if _, waiting := c.policy.expires[name]; !waiting {
		c.lookAtUser(name, now+keep)
	}
	c.policy.expires[name] = now + keep
	c.touchUser(name)
}

// lookAtUser sets when it is looked whether an automatic user goes.
func (c *Cell) lookAtUser(name string, at int64) {
	c.policy.due[name] = at
	c.timers.add(timer{at: at, kind: userExpires, name: name})
	c.touchUser(name)
}

func (c *Cell) userLeft(now int64, name string) {
	if c.perUser[name] == 0 {
		c.prolong(now, name)
	}
}

// expireUser removes an automatic user who has had no job for long enough.
func (c *Cell) expireUser(name string) {
	at, ok := c.policy.expires[name]
	if !ok || !c.policy.automatic[name] {
		return
	}
	if c.perUser[name] > 0 || at > c.now {
		keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
		c.lookAtUser(name, max(at, c.now+max(keep, 1)))
		return
	}
	c.policy.removeUser(name)
	c.touchUser(name)
	c.usersChanged(name)
}

// usersChanged makes what depends on the numbers of users, after one has come or gone.
func (c *Cell) usersChanged(name string) {
	if c.policy.Tree == nil || !c.policy.inTree[name] && len(c.policy.users.list) <= c.policy.room {
		c.state.Entitlements = c.policy.Entitlements
		if c.perUser[name] > 1 { // jobs from before the user had an object
			c.entitleAgain(func(j *Job) bool { return j.Owner() == name })
		}
		return
	}
	c.policy.plant(c.cluster)
	c.state.Entitlements = c.policy.Entitlements
	c.entitleAgain(func(*Job) bool { return true })
}

// entitleAgain does what entitle does, for jobs that the scheduler knows already.
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

// entitle finds the numbers that the ticket policies need of a job.
func (c *Cell) entitle(j *Job) {
	s := &j.sched
	user, project := c.policy.users.indexOf(j.Owner()), c.policy.projects.indexOf(j.Project)
	s.User, s.Project = tickets.RefTo(user), tickets.RefTo(project)
	s.Department = tickets.RefTo(c.policy.departments.indexOf(c.Department(j.Owner(), j.Group)))
	s.Leaf = 0
	if c.policy.Tree != nil {
		s.Leaf = c.policy.Tree.Leaf(user, project)
	}
	// What a task was started with stays, but whose it is follows the job: its usage does, too.
	for _, t := range j.tasks {
		if t.run != nil && t.run.Job != s {
			f := t.run.Job
			f.User, f.Project, f.Department, f.Leaf = s.User, s.Project, s.Department, s.Leaf
		}
	}
}

// Department returns the department of a user: the first user set of that type with the user, or else
// with the group, or else defaultdepartment (access_list(5)).
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

// Departments returns the names of the departments in the order of the Entitlements, as
// Users and Projects are; names of users and projects that are gone are empty.
func (c *Cell) Departments() []string { return c.policy.departments.list }

// Users returns the names of the users that have an object, by their numbers.
func (c *Cell) Users() []string { return c.policy.users.list }

// Projects returns the names of the projects, by their numbers.
func (c *Cell) Projects() []string { return c.policy.projects.list }

// Entitled returns the shares and tickets of users, projects and departments, and their past usage.
// Callers must not change it.
func (c *Cell) Entitled() *scheduler.Entitlements { return &c.policy.Entitlements }
