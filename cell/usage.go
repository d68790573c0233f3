package cell

import (
	"maps"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// book decays the stored usage, and adds the usage that was reported since the last scheduling run.
func (c *Cell) book(now int64) {
	c.touchUnstamped()
	begins, changed := c.policy.decayUntil(now, halftimesOf(c.cluster.Scheduler()))
	if begins || changed {
		c.unsaved.decay = c.unsaved.on
	}
	if changed {
		c.touchLedger()
	}
	for _, t := range c.unbooked {
		t.dirty = false
		c.touchTask(t)
		user, project := c.bookedFor(t)
		c.policy.Ledger.Book(user, project, &t.Used, &t.booked)
		for i, v := range t.Used {
			t.booked[i] = max(v, t.booked[i])
		}
	}
	c.unbooked = c.unbooked[:0]
}

// bookedFor returns the user and the project whose usage includes that of a task; None for those
// without an object. Jobs that have left are looked up by name, because numbers are reused.
func (c *Cell) bookedFor(t *Task) (user, project int32) {
	j := t.Job
	user, project = c.policy.users.indexOf(j.Owner()), c.policy.projects.indexOf(j.Project)
	if user != tickets.None {
		c.touchUser(j.Owner())
	}
	if project != tickets.None {
		c.touchProject(j.Project)
	}
	return user, project
}

// touchUnstamped marks usage that begins to decay. Later decay need not be stored: it follows from
// the stamp.
func (c *Cell) touchUnstamped() {
	if !c.unsaved.on {
		return
	}
	users, projects := c.policy.unstamped()
	for _, name := range users {
		c.touchUser(name)
	}
	for _, name := range projects {
		c.touchProject(name)
	}
}

// reportUsage stores the usage of a task until the next scheduling run books it.
func (c *Cell) reportUsage(t *Task, used tickets.Amounts) {
	if t.run == nil {
		return
	}
	c.touchTask(t)
	used = c.scaledUsage(t, used)
	for i, v := range used {
		// A report with a lower value is out of date.
		t.Used[i] = max(t.Used[i], v)
	}
	if !t.dirty {
		t.dirty = true
		c.unbooked = append(c.unbooked, t)
	}
}

// scaledUsage applies usage_scaling of the host of a task (host_conf(5)).
func (c *Cell) scaledUsage(t *Task, used tickets.Amounts) tickets.Amounts {
	host, err := c.cluster.Host(c.model.HostName(c.model.HostOf(master(t))))
	if err != nil {
		return used
	}
	for _, w := range host.UsageScaling {
		if i, ok := usageTypes[w.Name]; ok {
			used[i] *= w.Factor
		}
	}
	return used
}

// UsageReport sets the usage of a running task so far. Values that are lower than in the previous
// report are ignored.
func (c *Cell) UsageReport(now int64, job, task uint32, used tickets.Amounts) error {
	c.tick(now)
	t, err := c.runningTask(job, task)
	if err != nil {
		return err
	}
	c.reportUsage(t, used)
	return nil
}

// LiveReport sets the displayed usage of a running task.
func (c *Cell) LiveReport(job, task uint32, live Live) error {
	t, err := c.runningTask(job, task)
	if err != nil {
		return err
	}
	t.Live = live
	return nil
}

// SetUserUsage sets the previous usage of a user, in a project or, with "", outside of projects.
// stamp is the time to which the usage is decayed, 0 for never.
func (c *Cell) SetUserUsage(user, project string, usage tickets.Usage, stamp int64) error {
	if err := c.policy.setUserUsage(user, project, usage, stamp); err != nil {
		return err
	}
	c.touchUser(user)
	return nil
}

// SetProjectUsage sets the usage of a project as SetUserUsage does that of a user.
func (c *Cell) SetProjectUsage(project string, usage tickets.Usage, stamp int64) error {
	if err := c.policy.setProjectUsage(project, usage, stamp); err != nil {
		return err
	}
	c.touchProject(project)
	return nil
}

// ClearUserUsage clears the usage of a user, if there is a user object of that name.
func (c *Cell) ClearUserUsage(now int64, user string) {
	if u := c.policy.users.indexOf(user); u != tickets.None {
		c.policy.Ledger.Users[u].Clear(now)
		c.touchUser(user)
	}
}

// ClearUsage clears the usage of all users and projects (qconf(1), -clearusage).
func (c *Cell) ClearUsage(now int64, by Caller) (*Answer, error) {
	c.tick(now)
	if !c.isManager(by.User) {
		return nil, denied(Event{Kind: UsageNeedsManager, User: by.User})
	}
	c.policy.clearUsage(now)
	for _, j := range c.Jobs() {
		for _, t := range j.tasks {
			t.booked = t.Used
			c.touchTask(t)
		}
	}
	c.touchLedger()
	a := &Answer{}
	for _, name := range slices.Sorted(maps.Keys(c.policy.users.index)) {
		a.say(Event{Kind: UserCleared, User: by.User, Host: by.Host, Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(c.policy.projects.index)) {
		a.say(Event{Kind: ProjectCleared, User: by.User, Host: by.Host, Name: name})
	}
	return c.done(a), nil
}
