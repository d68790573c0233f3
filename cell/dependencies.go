package cell

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// predecessors are the jobs that a job depends on. Both lists are ascending.
type predecessors struct {
	jobs  []uint32 // must leave first (qsub(1), -hold_jid)
	tasks []uint32 // each task depends on the task with the same number there (-hold_jid_ad)
}

// dependencies records the successors of jobs: the jobs that depend on them. It is the reverse of
// Job.predecessors. An entry is removed with its last successor, or when the predecessor leaves.
type dependencies struct {
	jobs, tasks map[uint32][]uint32 // by the number of the predecessor, ascending
}

func newDependencies() dependencies {
	return dependencies{jobs: map[uint32][]uint32{}, tasks: map[uint32][]uint32{}}
}

// add records that a job depends on its predecessors.
func (d *dependencies) add(id uint32, p predecessors) {
	for _, before := range p.jobs {
		d.jobs[before] = sortedInsert(d.jobs[before], id)
	}
	for _, before := range p.tasks {
		d.tasks[before] = sortedInsert(d.tasks[before], id)
	}
}

// remove reverts add.
func (d *dependencies) remove(id uint32, p predecessors) {
	removeSuccessor(d.jobs, p.jobs, id)
	removeSuccessor(d.tasks, p.tasks, id)
}

func removeSuccessor(successors map[uint32][]uint32, predecessors []uint32, id uint32) {
	for _, before := range predecessors {
		if successors[before] = sortedRemove(successors[before], id); len(successors[before]) == 0 {
			delete(successors, before)
		}
	}
}

// leave removes a job that leaves the cell. It returns the jobs that depended on the job, and those
// that depended on its tasks.
func (d *dependencies) leave(id uint32, p predecessors) (jobs, tasks []uint32) {
	d.remove(id, p)
	jobs, tasks = d.jobs[id], d.tasks[id]
	delete(d.jobs, id)
	delete(d.tasks, id)
	return jobs, tasks
}

func itoa[T uint32 | int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// resolveDependencies finds the jobs that -hold_jid and -hold_jid_ad name. A name only matches jobs
// of the owner, and jobs that do not exist count as finished (tested).
func (c *Cell) resolveDependencies(j *Job, jobs, tasks []string) error {
	searches := 0
	for _, ref := range slices.Concat(jobs, tasks) {
		if !expression.Plain(ref) {
			searches += expression.Operands(ref)
		}
	}
	if err := tooMany(searches); err != nil {
		return err
	}
	if err := c.work.spend(searches*len(c.jobs) + len(jobs) + len(tasks)); err != nil {
		return err
	}
	for _, ref := range slices.Concat(jobs, tasks) {
		if ref == itoa(j.ID()) {
			return denied(Event{Kind: OwnPredecessor, Name: ref})
		}
	}
	if len(tasks) > 0 && j.asked.Array == nil {
		return denied(Event{Kind: ArrayHoldOfSingle})
	}
	found := predecessors{jobs: c.resolve(j, jobs), tasks: c.resolve(j, tasks)}
	for _, id := range found.tasks {
		a, b := j.asked.Array, c.jobs[id].asked.Array
		switch {
		case a == nil || b == nil:
			return denied(Event{Kind: ArrayHoldOfSingle})
		case a.First != b.First || a.Last != b.Last:
			return denied(Event{Kind: ArrayHoldOfRange})
		}
	}
	const perPredecessor = 8 // a step to find it, others for its entries
	c.work.done += perPredecessor * (len(found.jobs) + len(found.tasks))
	j.predecessors = found
	return nil
}

func (c *Cell) resolve(j *Job, references []string) []uint32 {
	var ids []uint32
	seen := map[string]bool{} // a repeated name may match thousands of jobs
	for _, ref := range references {
		if seen[ref] {
			continue
		}
		seen[ref] = true
		for _, p := range c.matchPredecessors(ref, j.Owner()) {
			if p.ID() != j.ID() { // a job does not wait for itself
				ids = append(ids, p.ID())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// work counts the steps of a command that resolves the dependencies of several jobs, since all other
// callers have to wait for it.
type work struct{ done int }

// mostWork is the maximum number of steps, each of which takes up to 0.1 µs.
const mostWork = 1 << 26

// spend adds steps. It refuses further jobs once a command has taken too many; the first job is never
// refused.
func (w *work) spend(steps int) error {
	if w.done > mostWork {
		return denied(Event{Kind: TooManyDependencies})
	}
	w.done += steps
	return nil
}

// following returns the jobs that wait for a job, directly or because they wait for one that does.
func (c *Cell) following(id uint32) map[uint32]bool {
	found, next := map[uint32]bool{}, []uint32{id}
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		for _, successors := range [][]uint32{c.dependencies.jobs[last], c.dependencies.tasks[last]} {
			c.work.done += len(successors)
			for _, s := range successors {
				if !found[s] {
					found[s] = true
					next = append(next, s)
				}
			}
		}
	}
	return found
}

// Successors returns the jobs that depend on a job (-hold_jid), ascending. Callers must not change
// the list.
func (c *Cell) Successors(j *Job) []uint32 { return c.dependencies.jobs[j.ID()] }

// TaskSuccessors returns the jobs whose tasks depend on the tasks of a job (-hold_jid_ad).
func (c *Cell) TaskSuccessors(j *Job) []uint32 { return c.dependencies.tasks[j.ID()] }

// release frees the jobs that depended on a job that leaves.
func (c *Cell) release(j *Job) {
	id := j.ID()
	jobs, tasks := c.dependencies.leave(id, j.predecessors)
	for _, s := range jobs {
		if next := c.jobs[s]; next != nil {
			c.touchJob(next, jobState)
			if next.predecessors.jobs = sortedRemove(next.predecessors.jobs, id); len(next.predecessors.jobs) == 0 {
				c.changed(next)
				c.refresh(next)
			}
		}
	}
	for _, s := range tasks {
		if next := c.jobs[s]; next != nil {
			c.touchJob(next, jobState)
			next.predecessors.tasks = sortedRemove(next.predecessors.tasks, id)
			c.refresh(next)
		}
	}
}

// taskEnded frees the tasks that depend on a task of an array job.
func (c *Cell) taskEnded(j *Job, number int) {
	for _, s := range c.dependencies.tasks[j.ID()] {
		next := c.jobs[s]
		if next == nil || next.Problem != "" || len(next.predecessors.jobs) > 0 || next.Start > c.now {
			continue
		}
		// Only tasks whose step covers the number can be affected.
		a, b := *j.asked.Array, *next.asked.Array
		for n := number - b.Step + 1; n < number+a.Step; n++ {
			if n < b.First || !contains(b, n) || next.sched.Tasks.Contains(n) || !c.waits(next, n) || c.blocked(next, n) {
				continue
			}
			next.sched.Tasks = next.sched.Tasks.Add(n)
			c.letSchedule(next)
		}
	}
}

// waits reports whether a task of a job is pending, and neither held nor in error.
func (c *Cell) waits(j *Job, number int) bool {
	if t := j.task(uint32(number)); t != nil {
		return t.run == nil && t.Holds == 0 && t.Error == ""
	}
	return j.Holds == 0 && j.Waiting.Contains(number) && c.reservations.usable(j)
}

// blocked reports whether a task has unfinished predecessors in preceding arrays (qsub(1),
// -hold_jid_ad). If the steps differ, a task represents the numbers up to the next task.
func (c *Cell) blocked(j *Job, number int) bool {
	b := *j.asked.Array
	return slices.ContainsFunc(j.predecessors.tasks, func(id uint32) bool {
		p := c.jobs[id]
		return p != nil && p.unfinished(number-p.asked.Array.Step+1, number+b.Step-1)
	})
}

// unblocked returns list without the tasks that depend on unfinished tasks of other arrays.
func (c *Cell) unblocked(j *Job, list rangelist.List) rangelist.List {
	if len(j.predecessors.tasks) == 0 {
		return list
	}
	var free rangelist.List
	var numbers []int // further free tasks
	for r := range list.Ranges() {
		// As long as no task has finished, a range is free or blocked as a whole.
		if !slices.ContainsFunc(j.predecessors.tasks, func(id uint32) bool {
			p := c.jobs[id]
			return p != nil && p.unfinished(r.First-p.asked.Array.Step+1, r.Last+j.asked.Array.Step-1)
		}) {
			if l, err := rangelist.Of(r.First, r.Last, r.Step); r.First == r.Last {
				numbers = append(numbers, r.First)
			} else if err == nil {
				free = free.Union(l)
			}
			continue
		}
		if c.untouched(j, r) {
			continue
		}
		for n := r.First; n <= r.Last; n += r.Step {
			if !c.blocked(j, n) {
				numbers = append(numbers, n)
			}
		}
	}
	return free.AddAll(numbers)
}

// untouched reports whether a whole preceding array is unfinished for a range of tasks: then no
// task of the range can start.
func (c *Cell) untouched(j *Job, r rangelist.Range) bool {
	return slices.ContainsFunc(j.predecessors.tasks, func(id uint32) bool {
		p := c.jobs[id]
		if p == nil || p.asked.Array.Step > r.Step {
			return false
		}
		for w := range p.Waiting.Ranges() {
			if w.First <= r.First && w.Last+p.asked.Array.Step > r.Last && w.Step == p.asked.Array.Step {
				return true
			}
		}
		return false
	})
}
