package cell

import (
	"fmt"
	"maps"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// UsageTypes are the names of usage in configurations (sched_conf(5),
// usage_weight_list), by tickets.UsageType.
var usageTypes = map[string]tickets.UsageType{
	"cpu": tickets.CPU, "mem": tickets.Mem, "io": tickets.IO, "finished_jobs": tickets.FinishedJobs,
}

// halftimes are how usage decays (sched_conf(5), halftime and halflife_decay_list).
type halftimes struct {
	hours      float64
	exceptions []tickets.HalfLife
}

func (h halftimes) equal(o halftimes) bool {
	return h.hours == o.hours && slices.Equal(h.exceptions, o.exceptions)
}

// configuredHalftimes returns those that the configuration says.
func (c *Cell) configuredHalftimes() halftimes {
	conf := c.cluster.Scheduler()
	h := halftimes{hours: conf.Halftime.Hours()}
	for _, e := range conf.HalflifeDecayList {
		if t, ok := usageTypes[e.Usage]; ok {
			h.exceptions = append(h.exceptions, tickets.HalfLife{Type: t, Minutes: e.Time.Minutes()})
		}
	}
	return h
}

// setHalftimes changes how usage decays from now on.
func (e *entitlements) setHalftimes(h halftimes) {
	e.halftimes, e.decay = h, tickets.NewDecay(h.hours, h.exceptions)
}

// book decays what has been used, and adds what has been reported since the last
// scheduling run. When the halftime has changed, usage is decayed once more with the old
// one.
func (c *Cell) book(now int64) {
	next := c.configuredHalftimes()
	if c.policy.decay == nil {
		c.policy.setHalftimes(next)
		c.unsaved.decay = c.unsaved.on
	}
	c.touchUnstamped()
	c.policy.Ledger.Decay(c.policy.decay, now)
	if !c.policy.halftimes.equal(next) {
		c.policy.setHalftimes(next)
		c.unsaved.decay = c.unsaved.on
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

// bookedFor returns whose usage that of a task is, None for who has no object. Jobs that have
// left are looked up by name, since numbers are given again.
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

// touchUnstamped notes whose usage begins to decay. That it decays need not be noted: it
// follows from the stamp.
func (c *Cell) touchUnstamped() {
	if !c.unsaved.on {
		return
	}
	for i := range c.policy.Ledger.Users {
		if name := c.policy.users.name(int32(i)); name != "" && c.policy.Ledger.Users[i].Stamp == 0 {
			c.touchUser(name)
		}
	}
	for i := range c.policy.Ledger.Projects {
		if name := c.policy.projects.name(int32(i)); name != "" && c.policy.Ledger.Projects[i].Stamp == 0 {
			c.touchProject(name)
		}
	}
}

// reportUsage keeps what a task has used until the next scheduling run books it.
func (c *Cell) reportUsage(t *Task, used tickets.Amounts) {
	if t.run == nil {
		return
	}
	c.touchTask(t)
	used = c.scaledUsage(t, used)
	for i, v := range used {
		// A report that is lower than the last one is an older one.
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

// UsageReport returns what a running task has used up to now. Amounts grow; what is lower than
// the report before is ignored.
func (c *Cell) UsageReport(now int64, job, task uint32, used tickets.Amounts) error {
	c.tick(now)
	t, err := c.runningTask(job, task)
	if err != nil {
		return err
	}
	c.reportUsage(t, used)
	return nil
}

// LiveReport returns what else is known about a running task.
func (c *Cell) LiveReport(job, task uint32, live Live) error {
	t, err := c.runningTask(job, task)
	if err != nil {
		return err
	}
	t.Live = live
	return nil
}

// SetUserUsage sets what a user has used, in a project or without one for "", as it is
// known from before. stamp is until when it is decayed, 0 for never.
func (c *Cell) SetUserUsage(user, project string, usage tickets.Usage, stamp int64) error {
	u := c.policy.users.indexOf(user)
	if u == tickets.None {
		return fmt.Errorf("cannot set the usage of user %q: there is no such user object", user)
	}
	l := &c.policy.Ledger.Users[u]
	l.Stamp = stamp
	c.touchUser(user)
	if project == "" {
		l.Usage = usage
		return nil
	}
	p := c.policy.projects.indexOf(project)
	if p == tickets.None {
		return fmt.Errorf("cannot set the usage of user %q in project %q: there is no such project", user, project)
	}
	if l.In(p) == nil {
		// Booking nothing makes the entry; the project itself gets nothing by it.
		c.policy.Ledger.Book(u, p, &tickets.Amounts{}, &tickets.Amounts{})
	}
	*l.In(p) = usage
	return nil
}

// SetProjectUsage returns the same for a project.
func (c *Cell) SetProjectUsage(project string, usage tickets.Usage, stamp int64) error {
	p := c.policy.projects.indexOf(project)
	if p == tickets.None {
		return fmt.Errorf("cannot set the usage of project %q: there is no such project", project)
	}
	c.policy.Ledger.Projects[p] = tickets.StampedUsage{Usage: usage, Stamp: stamp}
	c.touchProject(project)
	return nil
}

// ClearUserUsage forgets what a user has used, if there is a user object of that name.
func (c *Cell) ClearUserUsage(now int64, user string) {
	if u := c.policy.users.indexOf(user); u != tickets.None {
		c.policy.Ledger.Users[u].Clear(now)
		c.touchUser(user)
	}
}

// ClearUsage forgets what all users and projects have used (qconf(1), -clearusage).
func (c *Cell) ClearUsage(now int64, by Caller) (*Answer, error) {
	c.tick(now)
	if !c.isManager(by.User) {
		return nil, denied("denied: %q must be manager for this operation", by.User)
	}
	for i := range c.policy.Ledger.Users {
		c.policy.Ledger.Users[i].Clear(now)
	}
	for i := range c.policy.Ledger.Projects {
		c.policy.Ledger.Projects[i].Clear(now)
	}
	for _, j := range c.Jobs() {
		for _, t := range j.tasks {
			t.booked = t.Used
			c.touchTask(t)
		}
	}
	c.touchLedger()
	a := &Answer{}
	for _, name := range slices.Sorted(maps.Keys(c.policy.users.index)) {
		a.say("%s@%s modified %q in user list", by.User, by.Host, name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.policy.projects.index)) {
		a.say("%s@%s modified %q in project list", by.User, by.Host, name)
	}
	return c.done(a), nil
}
