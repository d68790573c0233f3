package scheduler

import (
	"cmp"
	"slices"

	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
)

// numbered is the list of a backlog's jobs sorted by number. It is created on first use, because
// only ticket policies need all jobs in each run. Few jobs come and go between two runs. The
// constant values of each job are stored in the list, so that a run reads the memory sequentially.
type numbered struct {
	kept  bool
	list  []numberedJob // sorted
	holes int           // in the list, where jobs have left
	more  []*Job        // jobs added since, unsorted
}

type numberedJob struct {
	job *Job // nil once it has left
	// task is its only task, or the common values of all its tasks.
	task     tickets.Task
	array    bool
	category int // its index
	// The other values for its urgency (priority.Job).
	submitted int64
	priority  int
	deadline  int64
	resources float64
}

func newNumbered(j *Job) numberedJob {
	return numberedJob{
		job: j, task: ticketTask(j, 1, false), array: j.Array, category: j.Category.index,
		submitted: j.Submitted, priority: j.Priority, deadline: j.Deadline, resources: j.Category.resources,
	}
}

// ranked returns the job as the priority sees it, with its tickets.
func (n *numberedJob) ranked(total float64) priority.Job {
	return priority.Job{
		ID: n.task.Job, Submitted: n.submitted, Deadline: n.deadline, Priority: n.priority,
		Resources: n.resources, Tickets: total,
	}
}

func compareNumbered(a, b numberedJob) int { return cmp.Compare(a.task.Job, b.task.Job) }

// manyMore is the number of new jobs after which the list is sorted again.
const manyMore = 1000

func (n *numbered) add(j *Job) {
	if !n.kept {
		return
	}
	if n.more = append(n.more, j); len(n.more) > len(n.list)+manyMore {
		*n = numbered{} // making it again is as fast
	}
}

func (n *numbered) remove(j *Job) {
	if !n.kept {
		return
	}
	if i, ok := n.find(j); ok {
		n.list[i].job = nil
		n.holes++
		return
	}
	n.more = slices.DeleteFunc(n.more, func(x *Job) bool { return x == j })
}

// changed notes that a job of the list has changed.
func (n *numbered) changed(j *Job) {
	if i, ok := n.find(j); ok {
		n.list[i].task.Changed = j.Changed
	}
}

func (n *numbered) find(j *Job) (int, bool) {
	i, ok := slices.BinarySearchFunc(n.list, j.ID, func(x numberedJob, id uint32) int { return cmp.Compare(x.task.Job, id) })
	return i, ok && n.list[i].job == j
}

// all returns the jobs of the backlog. The list is valid until a job is added or removed.
func (n *numbered) all(b *backlog) []numberedJob {
	if !n.kept {
		*n = numbered{kept: true, list: make([]numberedJob, 0, b.jobs)}
		for _, l := range b.list {
			for _, j := range l.waiting() {
				n.list = append(n.list, newNumbered(j))
			}
		}
		slices.SortFunc(n.list, compareNumbered)
		return n.list
	}
	if n.holes > 0 {
		n.list = slices.DeleteFunc(n.list, func(x numberedJob) bool { return x.job == nil })
		n.holes = 0
	}
	known := max(len(n.list)-1, 0)
	for _, j := range n.more {
		n.list = append(n.list, newNumbered(j))
	}
	clear(n.more)
	n.more = n.more[:0]
	// Usually it is sorted already: new jobs have the highest numbers.
	if !slices.IsSortedFunc(n.list[known:], compareNumbered) {
		slices.SortFunc(n.list, compareNumbered)
	}
	return n.list
}
