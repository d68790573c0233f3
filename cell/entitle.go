package cell

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

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

// enrolUser creates an object for a user without one (sge_conf(5), enforce_user auto), and extends
// the lifetime of an automatic object by auto_user_delete_time.
func (c *Cell) enrolUser(now int64, name string) {
	conf := c.cluster.Global()
	if !c.policy.knowsUser(name) {
		if conf.EnforceUser != qconf.EnforceUserAuto {
			return
		}
		c.policy.addUser(name, tickets.Entity{FunctionalShares: float64(conf.AutoUserFShare), OverrideTickets: float64(conf.AutoUserOTicket)})
		c.policy.automatic[name] = expiry{}
		c.touchUser(name)
		c.usersChanged(name)
	}
	c.prolong(now, name)
}

// prolong sets the time at which an automatic user object is removed. auto_user_delete_time 0 means
// never.
func (c *Cell) prolong(now int64, name string) {
	keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
	expiry, automatic := c.policy.automatic[name]
	if !automatic || keep == 0 {
		return
	}
	if expiry.at == 0 {
		expiry.due = now + keep
		c.timers.add(timer{at: expiry.due, kind: userExpires, name: name})
	}
	expiry.at = now + keep
	c.policy.automatic[name] = expiry
	c.touchUser(name)
}

func (c *Cell) userLeft(now int64, name string) {
	if c.perUser[name] == 0 {
		c.prolong(now, name)
	}
}

// expireUser removes an automatic user object whose user has had no job for auto_user_delete_time.
func (c *Cell) expireUser(name string) {
	expiry := c.policy.automatic[name]
	if expiry.at == 0 {
		return
	}
	if c.perUser[name] > 0 || expiry.at > c.now {
		keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
		expiry.due = max(expiry.at, c.now+max(keep, 1))
		c.policy.automatic[name] = expiry
		c.timers.add(timer{at: expiry.due, kind: userExpires, name: name})
		c.touchUser(name)
		return
	}
	c.policy.removeUser(name)
	c.touchUser(name)
	c.usersChanged(name)
}

// usersChanged updates the state that depends on the numbers of users, after a user object was
// added or removed.
func (c *Cell) usersChanged(name string) {
	if c.policy.Tree == nil || !c.policy.inTree[name] && len(c.policy.users.list) <= c.policy.room {
		c.state.Entitlements = c.policy.Entitlements
		if c.perUser[name] > 1 { // jobs submitted before the user had an object
			c.entitleAgain(func(j *Job) bool { return j.Owner() == name })
		}
		return
	}
	c.policy.plant(c.cluster)
	c.state.Entitlements = c.policy.Entitlements
	c.entitleAgain(func(*Job) bool { return true })
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
