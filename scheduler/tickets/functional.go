package tickets

// functionalSums are the sums of the functional shares of running tasks.
type functionalSums struct{ user, project, department, job float64 }

// weights is how much of the tickets goes by which shares (sched_conf(5),
// weight_user, weight_project, weight_department and weight_job), in parts of 1.
func (c *Config) weights() functionalSums {
	w := functionalSums{c.WeightUser, c.WeightProject, c.WeightDepartment, c.WeightJob}
	w.divide()
	return w
}

func (w *functionalSums) divide() {
	sum := w.user + w.project + w.department + w.job
	if sum <= 0 {
		*w = functionalSums{}
		return
	}
	w.user /= sum
	w.project /= sum
	w.department /= sum
	w.job /= sum
}

// part is what a share is of a sum of shares.
func part(share, sum float64) float64 {
	if sum == 0 {
		return 0
	}
	return share / sum
}

// portion is what a task has of the shares of an object: all of them, or its part
// where all tasks of the object share them (sched_conf(5),
// share_functional_shares).
func (c *calculation) portion(entities []Entity, i int32, tasks []int32, more int32) float64 {
	if i == None {
		return 0
	}
	shares := entities[i].FunctionalShares
	if n := tasks[i] + more; c.Config.ShareFunctionalShares && n > 0 {
		return shares / float64(n)
	}
	return shares
}

// functional computes the functional tickets of running tasks (sge_priority(5),
// functional policy): all tickets are divided among them. Kinds of shares that none
// of them has give their weight to the others.
func (c *calculation) functional() functionalSums {
	var sums functionalSums
	total := c.Config.TicketsFunctional
	if total <= 0 {
		return sums
	}
	shares := func(t *Task) functionalSums {
		return functionalSums{
			user:       c.portion(c.Users, t.User, c.running.users, 0),
			project:    c.portion(c.Projects, t.Project, c.running.projects, 0),
			department: c.portion(c.Departments, t.Department, c.running.departments, 0),
			job:        t.JobShares,
		}
	}
	for i := range c.Input.Tasks {
		if t := &c.Input.Tasks[i]; t.Running {
			s := shares(t)
			sums.user += s.user
			sums.project += s.project
			sums.department += s.department
			sums.job += s.job
		}
	}
	w := functionalSums{c.Config.WeightUser, c.Config.WeightProject, c.Config.WeightDepartment, c.Config.WeightJob}
	for _, k := range []struct{ weight, sum *float64 }{
		{&w.user, &sums.user}, {&w.project, &sums.project}, {&w.department, &sums.department}, {&w.job, &sums.job},
	} {
		if *k.sum == 0 {
			*k.weight = 0
		}
	}
	w.divide()
	for i := range c.Input.Tasks {
		if t := &c.Input.Tasks[i]; t.Running {
			s := shares(t)
			c.Result.Tasks[i].Functional = total * (w.user*part(s.user, sums.user) + w.department*part(s.department, sums.department) +
				w.project*part(s.project, sums.project) + w.job*part(s.job, sums.job))
		}
	}
	return sums
}

// apart is added to the sums of shares when the next task is looked for, so that
// none of them is 0.
const apart = 0.001

// pendingFunctional computes the functional tickets of pending tasks. The task that
// would get the most tickets if it were started gets them and counts as running from
// then on. That is repeated for max_functional_jobs_to_schedule tasks; the others
// keep what the first of their category would have got in the last round.
//
// sums are those of the tasks that run.
func (c *calculation) pendingFunctional(sums functionalSums, dependent bool) {
	w, total, shared := c.Config.weights(), c.Config.TicketsFunctional, c.Config.ShareFunctionalShares
	running := c.running.clone()
	q := c.newQueue(dependent,
		func(e *Entity) float64 { return e.FunctionalShares },
		func(t *Task) float64 { return t.JobShares })
	limit := min(len(q.tasks), c.Config.MaxFunctionalJobsToSchedule)
	if limit <= 0 {
		return
	}
	worth := func(k *category) float64 {
		s := functionalSums{
			user:       c.portion(c.Users, k.user, running.users, 1),
			project:    c.portion(c.Projects, k.project, running.projects, 1),
			department: c.portion(c.Departments, k.department, running.departments, 1),
			job:        k.own,
		}
		d := functionalSums{sums.user + apart, sums.project + apart, sums.department + apart, sums.job + apart + s.job}
		if !shared {
			d.user += s.user
			d.project += s.project
			d.department += s.department
		}
		return total * (w.user*s.user/d.user + w.department*s.department/d.department + w.project*s.project/d.project + w.job*s.job/d.job)
	}
	look := func(i int32) {
		k := &q.all[i]
		k.value = worth(k)
		k.key = k.value
		if dependent {
			k.key += c.hier[q.tasks[k.first]]
		}
	}
	h := &heap{before: func(i, j int32) bool {
		a, b := &q.all[i], &q.all[j]
		if a.key != b.key {
			return a.key > b.key
		}
		return bySubmission(q.first(a), q.first(b)) < 0
	}}
	for i := range q.all {
		h.items = append(h.items, int32(i))
		look(int32(i))
	}
	h.order()
	for i := range limit {
		if i == limit-1 {
			for _, k := range h.items {
				look(k)
			}
			h.order()
		}
		best := h.items[0]
		k := &q.all[best]
		if before := k.key; i < limit-1 {
			for look(best); k.key != before; look(best) {
				h.down(0)
				best = h.items[0]
				k = &q.all[best]
				before = k.key
			}
		}
		if i == limit-1 {
			c.leaveFunctional(q, h.items, k, dependent)
		}
		t := q.first(k)
		running.add(t)
		s := functionalSums{
			user:       c.grow(&sums.user, c.Users, k.user, running.users),
			project:    c.grow(&sums.project, c.Projects, k.project, running.projects),
			department: c.grow(&sums.department, c.Departments, k.department, running.departments),
			job:        t.JobShares,
		}
		sums.job += s.job
		f := total * (w.user*part(s.user, sums.user) + w.department*part(s.department, sums.department) +
			w.project*part(s.project, sums.project) + w.job*part(s.job, sums.job))
		index := q.take(k)
		c.Result.Tasks[index].Functional = f
		if dependent {
			c.hier[index] += f
		}
		if k.first == k.end {
			h.pop()
		} else {
			h.down(0)
		}
	}
}

// grow is what a task has of the shares of an object when it has been started, and
// adds it to the sum: shares that tasks share are there once.
func (c *calculation) grow(sum *float64, entities []Entity, i int32, tasks []int32) float64 {
	s := c.portion(entities, i, tasks, 0)
	if i != None && (!c.Config.ShareFunctionalShares || tasks[i] <= 1) {
		*sum += s
	}
	return s
}

// leaveFunctional gives the tasks that are not reached what the first of their
// category would have got.
func (c *calculation) leaveFunctional(q *queue, left []int32, best *category, dependent bool) {
	for _, i := range left {
		k := &q.all[i]
		first := k.first
		if k == best {
			first++
		}
		for _, task := range q.tasks[first:k.end] {
			c.Result.Tasks[task].Functional = k.value
			if dependent {
				c.hier[task] += k.value
			}
		}
	}
}
