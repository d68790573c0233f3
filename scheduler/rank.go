package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// rank computes tickets and priorities of all tasks (sge_priority(5)), and returns the
// jobs by the order of dispatch.
func (r *run) rank() *heads {
	ranked := r.tickets()
	r.bounds()
	h := newHeads(r.keys)
	var rests [][]*Job // the first job of each that may start a task is compared
	switch {
	case ranked != nil:
		r.rankedHeads(h, ranked)
	case r.model.weights.Urgency*r.model.weights.WaitingTime >= 0:
		// The jobs of a line are in the order of their priority, unless waiting is bad.
		for _, l := range r.pending.list {
			rests = append(rests, l.waiting())
		}
	default:
		for _, l := range r.pending.list {
			for i := range l.waiting() {
				rests = append(rests, l.waiting()[i:i+1])
			}
		}
	}
	if ranked == nil {
		r.restHeads(h, rests)
	}
	h.init()
	r.keys = h.categories
	return h
}

// rankedHeads adds a head for each job with its tickets.
func (r *run) rankedHeads(h *heads, ranked *ranking) {
	h.made = func(i int32) head {
		x := head{rest: ranked.jobs[i : i+1], tickets: ranked.ticketsOf(int(i))}
		r.nextInLine(&x)
		return x
	}
	all := r.pending.ids.all(&r.pending)
	for i := range all {
		if t := ranked.ticketsOf(i); len(t) > 0 {
			p := all[i].ranked(t[0].Total)
			h.add(all[i].category, headKey{priority: r.model.weights.Number(&p, &r.decisions.bounds, r.now), submitted: p.Submitted, id: p.ID}, int32(i))
		}
	}
}

// restHeads adds a head for each list in which a job may start a task.
func (r *run) restHeads(h *heads, rests [][]*Job) {
	h.made = func(i int32) head {
		x := head{rest: rests[i]}
		r.nextInLine(&x)
		return x
	}
	for i, jobs := range rests {
		for _, j := range jobs {
			if r.model.startable(j) > 0 {
				p := priorityJob(j, 0)
				h.add(j.Category.index, headKey{priority: r.model.weights.Number(&p, &r.decisions.bounds, r.now), submitted: j.Submitted, id: j.ID}, int32(i))
				break
			}
		}
	}
}

// ranking is the tickets of waiting jobs.
type ranking struct {
	jobs  []*Job // by their numbers
	first []int  // of each job: its first task
	tasks []tickets.Tickets
}

func (r *ranking) ticketsOf(i int) []tickets.Tickets { return r.tasks[r.first[i]:r.first[i+1]] }

// next returns the tickets of the first pending task of a job after the passed ones.
func (r *ranking) next(j *Job, passed int) (t tickets.Tickets) {
	if r == nil {
		return t
	}
	i, ok := slices.BinarySearchFunc(r.jobs, j, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	if ok && r.first[i] < r.first[i+1] {
		t = r.tasks[r.first[i]+passed]
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
		u := r.model.weights.UrgencyOf(&p, r.now)
		b.MinUrgency, b.MaxUrgency = min(b.MinUrgency, u), max(b.MaxUrgency, u)
	}
	for _, l := range r.pending.list {
		jobs := l.waiting()
		startable := func(j *Job) bool { return !j.Array || r.model.startable(j) > 0 }
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
		if !t.Idle() {
			add(t.Job)
		}
	}
}

// tickets computes the tickets of all running and of the first pending tasks. It returns the
// tickets of the pending ones, or nil if no policy is in force, so that all are equal.
func (r *run) tickets() *ranking {
	if !r.policies() {
		return nil
	}
	tasks := slices.Grow(r.ranked[:0], len(r.running)+r.pending.jobs)
	active := slices.DeleteFunc(r.runningByID(), (*Running).Idle)
	for _, t := range active {
		tasks = append(tasks, ticketTask(t.Job, t.Task, true))
	}
	all := r.pending.ids.all(&r.pending)
	ranked := &ranking{jobs: make([]*Job, len(all)), first: make([]int, 0, len(all)+1)}
	each := tickets.PendingTasks(r.model.scheduler.MaxPendingTasksPerJob, r.freeSlots())
	for i := range all {
		j := all[i].job
		ranked.jobs[i] = j
		ranked.first = append(ranked.first, len(tasks)-len(active))
		if !all[i].array {
			if !j.Tasks.IsEmpty() {
				tasks = append(tasks, all[i].task)
			}
			continue
		}
		left := min(r.model.startable(j), each)
		for task := range j.Tasks.All() {
			if left--; left < 0 {
				break
			}
			tasks = append(tasks, ticketTask(j, uint32(task), false))
		}
	}
	ranked.first = append(ranked.first, len(tasks)-len(active))
	r.ranked = tasks
	e := &r.Entitlements
	result := tickets.Calculate(&tickets.Input{
		Config: r.model.tickets, Users: e.Users, Projects: e.Projects, Departments: e.Departments,
		Tree: e.Tree, Ledger: e.Ledger, Tasks: tasks,
	})
	ranked.tasks = result.Tasks[len(active):]
	d := r.decisions
	for _, i := range result.Unknown {
		if i == 0 || tasks[i].Job != tasks[i-1].Job {
			d.Problems = append(d.Problems, fmt.Errorf("job %d: its user, project, department or leaf is not among the Entitlements", tasks[i].Job))
		}
	}
	d.bounds.MaxTickets, d.override = max(result.Max, 0), result.ActiveOverride
	d.waiting = ranked
	for i, t := range active {
		d.running[t] = result.Tasks[i]
	}
	return ranked
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
	return r.overridden > 0 || slices.ContainsFunc(r.running, func(t *Running) bool { return t.Job.Override > 0 })
}

func ticketTask(j *Job, task uint32, running bool) tickets.Task {
	t := tickets.Task{
		Job: j.ID, Task: task, Changed: j.Changed, User: j.User, Project: j.Project, Department: j.Department,
		Leaf: j.Leaf, JobShares: j.Shares, OverrideTickets: j.Override, Slots: int32(j.Category.minSlots()), Running: running,
	}
	if !j.Array {
		t.Task = 0
	}
	return t
}

// freeSlots returns the number of free slots of all usable instances.
func (r *run) freeSlots() int {
	n := 0
	for id := range r.order.all() {
		n += max(r.model.instances[id].settings.Slots-r.UsedSlots(id), 0)
	}
	return n
}
