package tickets

// functionalSums are the sums of the functional shares of running tasks.
type functionalSums struct{ user, project, department, job float64 }

// weights returns the fraction of the tickets that goes by each kind of share (sched_conf(5),
// weight_user, weight_project, weight_department and weight_job). The fractions add up to 1.
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

// part returns share divided by sum, or 0 if sum is 0.
func part(share, sum float64) float64 {
	if sum == 0 {
		return 0
	}
	return share / sum
}

// portion returns the shares that a task has of an object: all of them, or if the tasks of the
// object divide them among themselves, its part (sched_conf(5), share_functional_shares). more is
// added to the number of tasks.
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

// functional computes the functional tickets of running tasks (sge_priority(5), functional policy):
// all tickets are divided among them. The weight of a kind of shares that none of them has goes to
// the other kinds.
func (c *calculation) functional() functionalSums {
	var sums functionalSums
	total := c.Config.TicketsFunctional
	if total <= 0 {
		return sums
	}
	shares := func(t *Task) functionalSums {
		return functionalSums{
			user:       c.portion(c.Users, t.User.Index(), c.running.users, 0),
			project:    c.portion(c.Projects, t.Project.Index(), c.running.projects, 0),
			department: c.portion(c.Departments, t.Department.Index(), c.running.departments, 0),
			job:        t.JobShares,
		}
	}
	for i := range c.active {
		s := shares(&c.active[i])
		sums.user += s.user
		sums.project += s.project
		sums.department += s.department
		sums.job += s.job
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
	for i := range c.active {
		s := shares(&c.active[i])
		c.Result.Tasks[i].Functional = total * (w.user*part(s.user, sums.user) + w.department*part(s.department, sums.department) +
			w.project*part(s.project, sums.project) + w.job*part(s.job, sums.job))
	}
	return sums
}

// apart is added to the sums of shares when the next task is selected, so that no sum is 0.
const apart = 0.001

// functionalRanking gives functional tickets to one pending task after the other.
type functionalRanking struct {
	*calculation
	weights   functionalSums
	sums      functionalSums // of the tasks that run, or are assumed to
	running   counts         // of the same
	queue     *queue
	heap      heap // of categories
	dependent bool
}

// pendingFunctional computes the functional tickets of pending tasks. The task that would get the
// most tickets if it were started gets them and counts as running from then on. That is repeated
// for max_functional_jobs_to_schedule tasks; each other task gets the tickets that the first one of
// its category would have got in the last round.
//
// sums are the sums of running tasks.
func (c *calculation) pendingFunctional(sums functionalSums, dependent bool) {
	r := &functionalRanking{calculation: c, weights: c.Config.weights(), sums: sums, running: c.running.clone(), dependent: dependent}
	r.queue = c.newQueue(dependent,
		func(e *Entity) float64 { return e.FunctionalShares },
		func(t *Task) float64 { return t.JobShares })
	limit := min(len(r.queue.tasks), c.Config.MaxFunctionalJobsToSchedule)
	if limit <= 0 {
		return
	}
	r.heap.before = r.before
	for i := range r.queue.all {
		r.heap.items = append(r.heap.items, int32(i))
	}
	r.lookAtAll()
	for range limit - 1 {
		r.start(r.best())
	}
	// The other tasks get their value of the last round.
	r.lookAtAll()
	last := &r.queue.all[r.heap.items[0]]
	r.leave(last)
	r.start(last)
}

// before reports whether the first task of category i precedes the first one of category j.
func (r *functionalRanking) before(i, j int32) bool {
	a, b := &r.queue.all[i], &r.queue.all[j]
	if a.key != b.key {
		return a.key > b.key
	}
	return byID(r.queue.first(a), r.queue.first(b)) < 0
}

// worth returns the tickets that the first task of a category would get if it were started.
func (r *functionalRanking) worth(k *category) float64 {
	s := functionalSums{
		user:       r.portion(r.Users, k.user, r.running.users, 1),
		project:    r.portion(r.Projects, k.project, r.running.projects, 1),
		department: r.portion(r.Departments, k.department, r.running.departments, 1),
		job:        k.own,
	}
	w, d := &r.weights, functionalSums{r.sums.user + apart, r.sums.project + apart, r.sums.department + apart, r.sums.job + apart + s.job}
	if !r.Config.ShareFunctionalShares {
		d.user += s.user
		d.project += s.project
		d.department += s.department
	}
	return r.Config.TicketsFunctional * (w.user*s.user/d.user + w.department*s.department/d.department + w.project*s.project/d.project + w.job*s.job/d.job)
}

func (r *functionalRanking) look(i int32) {
	k := &r.queue.all[i]
	k.value = r.worth(k)
	k.key = k.value
	if r.dependent {
		k.key += r.hier[r.queue.tasks[k.first]]
	}
}

func (r *functionalRanking) lookAtAll() {
	for _, i := range r.heap.items {
		r.look(i)
	}
	r.heap.order()
}

// best returns the category whose first task has the highest value: the first one whose value has
// not changed since it was computed last.
func (r *functionalRanking) best() *category {
	for {
		i := r.heap.items[0]
		k := &r.queue.all[i]
		before := k.key
		if r.look(i); k.key == before {
			return k
		}
		r.heap.down(0)
	}
}

// start gives the first task of the best category its tickets: it counts as running.
func (r *functionalRanking) start(k *category) {
	t := r.queue.first(k)
	r.running.add(t)
	s := functionalSums{
		user:       r.grow(&r.sums.user, r.Users, k.user, r.running.users),
		project:    r.grow(&r.sums.project, r.Projects, k.project, r.running.projects),
		department: r.grow(&r.sums.department, r.Departments, k.department, r.running.departments),
		job:        t.JobShares,
	}
	r.sums.job += s.job
	w, sums := &r.weights, &r.sums
	f := r.Config.TicketsFunctional * (w.user*part(s.user, sums.user) + w.department*part(s.department, sums.department) +
		w.project*part(s.project, sums.project) + w.job*part(s.job, sums.job))
	index := r.queue.take(k)
	r.Result.Tasks[index].Functional = f
	if r.dependent {
		r.hier[index] += f
	}
	if k.first == k.end {
		r.heap.pop()
	} else {
		r.heap.down(0)
	}
}

// grow returns the shares that a task has of an object after its start, and adds them to sum.
// Shares that tasks divide among themselves are added once.
func (c *calculation) grow(sum *float64, entities []Entity, i int32, tasks []int32) float64 {
	s := c.portion(entities, i, tasks, 0)
	if i != None && (!c.Config.ShareFunctionalShares || tasks[i] <= 1) {
		*sum += s
	}
	return s
}

// leave gives the remaining tasks the tickets that the first one of their category would have got.
// The following policies do not use the tickets of that first one (tested).
func (r *functionalRanking) leave(best *category) {
	for _, i := range r.heap.items {
		k := &r.queue.all[i]
		first := k.first
		if k == best {
			first++
		}
		for n, task := range r.queue.tasks[first:k.end] {
			r.Result.Tasks[task].Functional = k.value
			if r.dependent && n > 0 {
				r.hier[task] += k.value
			}
		}
	}
}
