package scheduler

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// rank computes tickets and priorities of all tasks (sge_priority(5)), and returns the
// jobs by the order of dispatch.
func (r *run) rank() heads {
	byJob := r.tickets()
	r.bounds()
	h := make(heads, 0, len(r.pending.list))
	if byJob == nil {
		for _, l := range r.pending.list {
			r.addHead(&h, &head{rest: l.waiting()})
		}
	} else {
		for _, l := range r.pending.list {
			for _, j := range l.waiting() {
				r.addHead(&h, &head{rest: []*Job{j}, tickets: byJob[j]})
			}
		}
	}
	heap.Init(&h)
	return h
}

// addHead adds a head with the first job of its line that may start a task.
func (r *run) addHead(h *heads, x *head) {
	if r.overLimit(x.rest[0].Owner) {
		return
	}
	if r.nextInLine(x) {
		*h = append(*h, x)
	}
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
		if r.overLimit(l.key.owner) {
			continue
		}
		jobs := l.waiting()
		add(jobs[0])
		add(jobs[len(jobs)-1])
	}
	for _, t := range r.running {
		add(t.Job)
	}
}

// tickets computes the tickets of all running and of the first waiting tasks. It returns
// those of the waiting ones, or nil if no policy is in force and all are the same.
func (r *run) tickets() map[*Job][]tickets.Tickets {
	if !r.policies() {
		return nil
	}
	m := r.model
	tasks := make([]tickets.Task, 0, len(r.State.running)+r.pending.jobs)
	active := slices.DeleteFunc(slices.Clone(r.State.running), func(t *Running) bool { return t.Suspended != 0 })
	slices.SortFunc(active, func(a, b *Running) int {
		return cmp.Or(cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.Task, b.Task))
	})
	for _, t := range active {
		tasks = append(tasks, ticketTask(t.Job, t.Task, true))
	}
	jobs := make([]*Job, 0, r.pending.jobs)
	for _, l := range r.pending.list {
		if !r.overLimit(l.key.owner) {
			jobs = append(jobs, l.waiting()...)
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	each := tickets.PendingTasks(m.scheduler.MaxPendingTasksPerJob, r.freeSlots())
	counts := make([]int, len(jobs))
	for i, j := range jobs {
		n := min(r.startable(j), each)
		for task := range j.Tasks.All() {
			if counts[i] == n {
				break
			}
			tasks = append(tasks, ticketTask(j, uint32(task), false))
			counts[i]++
		}
	}
	result := tickets.Calculate(&tickets.Input{
		Config: m.tickets, Users: r.Entitlements.Users, Projects: r.Entitlements.Projects, Departments: r.Entitlements.Departments,
		Tree: r.Entitlements.Tree, Ledger: r.Entitlements.Ledger, Tasks: tasks,
	})
	d := r.decisions
	d.bounds.MaxTickets, d.override = max(result.Max, 0), result.ActiveOverride
	for i, t := range active {
		d.running[t] = result.Tasks[i]
	}
	byJob := make(map[*Job][]tickets.Tickets, len(jobs))
	at := len(active)
	for i, j := range jobs {
		byJob[j] = result.Tasks[at : at+counts[i]]
		if counts[i] > 0 {
			d.ranks[j] = rank{tickets: result.Tasks[at]}
		}
		at += counts[i]
	}
	return byJob
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
