package tickets

// overrides is what an object gives to one of n tasks, or to each of them where
// they do not share it (sched_conf(5), share_override_tickets).
func (c *calculation) overrides(entities []Entity, i int32, tasks []int32, more int32) float64 {
	if i == None {
		return 0
	}
	if n := tasks[i] + more; c.Config.ShareOverrideTickets && n > 0 {
		return entities[i].OverrideTickets / float64(n)
	}
	return entities[i].OverrideTickets
}

// activeOverride computes the override tickets of running tasks (sge_priority(5),
// override policy): those of the user, the project and the department, and the
// job's own.
func (c *calculation) activeOverride() {
	for i := range c.Input.Tasks {
		if t := &c.Input.Tasks[i]; t.Running {
			c.Result.Tasks[i].Override = c.overrides(c.Users, t.User, c.running.users, 0) +
				c.overrides(c.Projects, t.Project, c.running.projects, 0) +
				c.overrides(c.Departments, t.Department, c.running.departments, 0) + t.OverrideTickets
			c.ActiveOverride += c.Result.Tasks[i].Override
		}
	}
}

// pendingOverride computes the override tickets of pending tasks. Where tasks share
// them, the task that would get most if it were started gets that and counts as
// running from then on.
func (c *calculation) pendingOverride(dependent bool) {
	q := c.newQueue(dependent,
		func(e *Entity) float64 { return e.OverrideTickets },
		func(t *Task) float64 { return t.OverrideTickets })
	running := c.running.clone()
	worth := func(k *category) float64 {
		return c.overrides(c.Users, k.user, running.users, 1) + c.overrides(c.Projects, k.project, running.projects, 1) +
			c.overrides(c.Departments, k.department, running.departments, 1) + k.own
	}
	give := func(task int32, tickets float64) {
		c.Result.Tasks[task].Override = tickets
		if dependent {
			c.hier[task] += tickets
		}
	}
	if !c.Config.ShareOverrideTickets {
		for i := range q.all {
			k := &q.all[i]
			for _, task := range q.tasks[k.first:k.end] {
				give(task, worth(k))
			}
		}
		return
	}
	// Only what is shared decides who is first: the tickets of other policies order
	// the tasks within a category.
	q.dependent = false
	q.start(worth)
	for len(q.heap) > 0 {
		k := q.best()
		tickets := k.value
		running.add(&c.Input.Tasks[q.tasks[k.first]])
		give(q.take(k), tickets)
	}
}
