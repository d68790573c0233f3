package scheduler

import (
	"cmp"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// rank computes tickets and priorities of all tasks (sge_priority(5)), and returns the
// jobs by the order of dispatch.
func (r *run) rank() *heads {
	ranked := r.tickets()
	r.bounds()
	h := &heads{}
	if ranked == nil {
		// The jobs of a line are in the order of their priority, unless waiting is bad.
		lines := r.model.weights.Urgency*r.model.weights.WaitingTime >= 0
		for _, l := range r.pending.list {
			if lines {
				r.addHead(h, head{rest: l.waiting()})
				continue
			}
			for i := range l.waiting() {
				r.addHead(h, head{rest: l.waiting()[i : i+1]})
			}
		}
	} else {
		h.list, h.heap = make([]head, 0, len(ranked.jobs)), make([]headKey, 0, len(ranked.jobs))
		for i := range ranked.jobs {
			r.addHead(h, head{rest: ranked.jobs[i : i+1], tickets: ranked.of(i)})
		}
	}
	h.init()
	return h
}

// addHead adds a head with the first job of its line that may start a task.
func (r *run) addHead(h *heads, x head) {
	if r.nextInLine(&x) {
		h.add(x)
	}
}

// ranking is the tickets of waiting jobs.
type ranking struct {
	jobs  []*Job // by their numbers
	first []int  // of each job: its first task
	tasks []tickets.Tickets
}

func (r *ranking) of(i int) []tickets.Tickets { return r.tasks[r.first[i]:r.first[i+1]] }

// next are the tickets of the first waiting task of a job.
func (r *ranking) next(j *Job) (t tickets.Tickets) {
	if r == nil {
		return t
	}
	i, ok := slices.BinarySearchFunc(r.jobs, j, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	if ok && r.first[i] < r.first[i+1] {
		t = r.tasks[r.first[i]]
	}
	return t
}

// bounds finds the scale of the urgencies: between the smallest and the largest of all
// jobs that wait or run. In a line only the waiting time differs, so that the ends of
// the line have its extremes.
func (r *run) bounds() {
	b := &r.decisions.bounds
	b.MinUrgency, b.MaxUrgency = math.MaxFloat64, 0x1p-1022
	add := func(j *Job) {
		p := priorityJob(j, 0)
		u := r.model.weights.One(&p, b, r.now).Urgency
		b.MinUrgency, b.MaxUrgency = min(b.MinUrgency, u), max(b.MaxUrgency, u)
	}
	for _, l := range r.pending.list {
		jobs := l.waiting()
		startable := func(j *Job) bool { return r.model.startable(j) > 0 }
		if first := slices.IndexFunc(jobs, startable); first >= 0 {
			last := len(jobs) - 1
			for !startable(jobs[last]) {
				last--
			}
			add(jobs[first])
			add(jobs[last])
		}
	}
	for _, t := range r.running {
		if !t.idle() {
			add(t.Job)
		}
	}
}

// tickets computes the tickets of all running and of the first waiting tasks. It returns
// those of the waiting ones, or nil if no policy is in force and all are the same.
func (r *run) tickets() *ranking {
	if !r.policies() {
		return nil
	}
	tasks := make([]tickets.Task, 0, len(r.running)+r.pending.jobs)
	active := slices.DeleteFunc(r.runningByID(), (*Running).idle)
	for _, t := range active {
		tasks = append(tasks, ticketTask(t.Job, t.Task, true))
	}
	ranked := &ranking{jobs: r.waiting()}
	each := tickets.PendingTasks(r.model.scheduler.MaxPendingTasksPerJob, r.freeSlots())
	ranked.first = make([]int, 0, len(ranked.jobs)+1)
	for _, j := range ranked.jobs {
		ranked.first = append(ranked.first, len(tasks)-len(active))
		left := min(r.model.startable(j), each)
		for task := range j.Tasks.All() {
			if left--; left < 0 {
				break
			}
			tasks = append(tasks, ticketTask(j, uint32(task), false))
		}
	}
	ranked.first = append(ranked.first, len(tasks)-len(active))
	e := &r.Entitlements
	result := tickets.Calculate(&tickets.Input{
		Config: r.model.tickets, Users: e.Users, Projects: e.Projects, Departments: e.Departments,
		Tree: e.Tree, Ledger: e.Ledger, Tasks: tasks,
	})
	ranked.tasks = result.Tasks[len(active):]
	d := r.decisions
	d.bounds.MaxTickets, d.override = max(result.Max, 0), result.ActiveOverride
	d.waiting = ranked
	for i, t := range active {
		d.running[t] = result.Tasks[i]
	}
	return ranked
}

// waiting are the jobs that take part, by their numbers.
func (r *run) waiting() []*Job {
	jobs := make([]*Job, 0, r.pending.jobs)
	for _, l := range r.pending.list {
		jobs = append(jobs, l.waiting()...)
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// policies reports whether any job can have tickets.
func (r *run) policies() bool {
	c := &r.model.tickets
	if c.TicketsShare > 0 || c.TicketsFunctional > 0 {
		return true
	}
	for _, list := range [][]tickets.Entity{r.Entitlements.Users, r.Entitlements.Projects, r.Entitlements.Departments} {
		if slices.ContainsFunc(list, func(e tickets.Entity) bool { return e.OverrideTickets > 0 }) {
			return true
		}
	}
	return r.overridden > 0
}

func ticketTask(j *Job, task uint32, running bool) tickets.Task {
	t := tickets.Task{
		Job: j.ID, Task: task, Submitted: j.Submitted, User: j.User, Project: j.Project, Department: j.Department,
		Leaf: j.Leaf, JobShares: j.Shares, OverrideTickets: j.Override, Slots: int32(j.Category.minSlots()), Running: running,
	}
	if !j.Array {
		t.Task = 0
	}
	return t
}

// freeSlots is the number of free slots of all usable instances.
func (r *run) freeSlots() int {
	n := 0
	for id := range r.order.all() {
		n += max(r.model.instances[id].settings.Slots-r.UsedSlots(id), 0)
	}
	return n
}
