package qstat

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// row is a line of a list of jobs.
type row struct {
	job  *Job
	task *Task
	ids  []Range
	// queue is the queue instance of the row, "" for a task without one.
	queue string
	slots int
	// role is MASTER or SLAVE if each slot of a running task has a line; first then marks the first
	// line of the task at the instance.
	role  string
	first bool
	// tickets and usage belong to the row, not to the whole task.
	tickets Tickets
	usage   *Usage
	// subtask is the subtask that occupies the slot, or nil.
	subtask *Subtask
}

const (
	roleMaster = "MASTER"
	roleSlave  = "SLAVE"
)

// sections are the rows of a view in their order.
type sections struct {
	jobs    []Job
	options Options
	queues  []*QueueInstance // in their order
	running []int32          // indexes of jobs with running tasks, by job number
	pending []int32          // by priority
	ended   []int32          // as given
	at      map[string][]grantIndex
	row     row // the current row; reusing one row saves a lot of memory
}

// grantIndex identifies a grant of a running task at a queue instance.
type grantIndex struct{ job, task, grant int32 }

// sections sorts the rows of the output.
func (c *Cell) sections(o Options) *sections {
	s := &sections{jobs: c.Jobs, options: o}
	type waiting struct {
		priority float64
		id       int
		index    int32
	}
	var pending []waiting
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if j.firstIn(Running) != nil {
			s.running = append(s.running, int32(i))
		}
		if t := j.firstIn(Pending); t != nil {
			pending = append(pending, waiting{t.Priority, j.ID, int32(i)})
		}
		if j.firstIn(Finished) != nil {
			s.ended = append(s.ended, int32(i))
		}
	}
	slices.SortStableFunc(s.running, func(a, b int32) int { return cmp.Compare(c.Jobs[a].ID, c.Jobs[b].ID) })
	slices.SortStableFunc(pending, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id))
	})
	s.pending = make([]int32, len(pending))
	for i := range pending {
		s.pending[i] = pending[i].index
	}
	if o.byQueue() {
		s.queues = sortQueues(c.Queues)
		s.place()
	}
	return s
}

// firstIn returns the job's first task in a phase, or nil.
func (j *Job) firstIn(p Phase) *Task {
	for i := range j.Tasks {
		if j.Tasks[i].Phase == p {
			return &j.Tasks[i]
		}
	}
	return nil
}

// SortedQueues returns queue instances in the order in which all commands show them.
func SortedQueues(queues []QueueInstance) []*QueueInstance { return sortQueues(queues) }

func sortQueues(queues []QueueInstance) []*QueueInstance {
	sorted := make([]*QueueInstance, len(queues))
	for i := range queues {
		sorted[i] = &queues[i]
	}
	slices.SortStableFunc(sorted, func(a, b *QueueInstance) int {
		return cmp.Or(cmp.Compare(a.SequenceNumber, b.SequenceNumber), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Host, b.Host))
	})
	return sorted
}

// place notes which tasks run at which queue instance.
func (s *sections) place() {
	s.at = make(map[string][]grantIndex, len(s.queues))
	for _, i := range s.running {
		j := &s.jobs[i]
		for t := range j.Tasks {
			if j.Tasks[t].Phase != Running {
				continue
			}
			for g := range j.Tasks[t].Grants {
				if g > 0 && !s.options.full() && !s.options.eachSlot() {
					break
				}
				name := j.Tasks[t].Grants[g].Queue
				s.at[name] = append(s.at[name], grantIndex{i, int32(t), int32(g)})
			}
		}
	}
}

// eachRunning calls f with the rows of running tasks when queue instances are not
// shown.
func (s *sections) eachRunning(f func(*row)) {
	if !s.options.byQueue() {
		for _, i := range s.running {
			j := &s.jobs[i]
			for t := range j.Tasks {
				for g := range j.Tasks[t].Grants {
					if j.Tasks[t].Phase != Running || g > 0 && !s.options.eachSlot() {
						break
					}
					s.eachGrant(grantIndex{i, int32(t), int32(g)}, f)
				}
			}
		}
		return
	}
	for _, q := range s.queues {
		name := q.Name()
		s.eachAt(name, f)
		delete(s.at, name)
	}
	s.eachLeft(f)
}

// eachLeft calls f with the rows of tasks that run at instances that are not given: they
// are not lost. With -f they are the ERROR JOBS of qstat(1).
func (s *sections) eachLeft(f func(*row)) {
	for _, name := range slices.Sorted(maps.Keys(s.at)) {
		s.eachAt(name, f)
	}
}

// eachAt calls f with the rows of tasks that run at a queue instance.
func (s *sections) eachAt(name string, f func(*row)) {
	for _, p := range s.at[name] {
		s.eachGrant(p, f)
	}
}

// eachGrant calls f with the rows of one grant.
func (s *sections) eachGrant(p grantIndex, f func(*row)) {
	j := &s.jobs[p.job]
	t := &j.Tasks[p.task]
	g := &t.Grants[p.grant]
	r := &s.row
	*r = row{job: j, task: t, ids: t.IDs, queue: g.Queue, slots: g.Slots, first: true, tickets: t.Tickets}
	if g.Tickets != nil {
		r.tickets = *g.Tickets
	}
	if !s.options.eachSlot() {
		r.usage = t.usageAt(p.grant)
		if !s.options.full() {
			r.slots, r.usage = t.slots(), t.usageAt(-1)
		}
		f(r)
		return
	}
	subtasks := t.in(g.Queue)
	lines := g.Slots
	r.role = roleSlave
	if p.grant == 0 {
		r.role, r.usage = roleMaster, t.Usage
		if t.ExtraMaster {
			lines++
		}
	}
	for n := range lines {
		if n == 1 {
			r.role, r.first = roleSlave, false
			if g.Tickets != nil {
				r.tickets = r.tickets.divided(float64(lines))
			}
		}
		if r.role == roleSlave {
			r.usage, r.subtask = nil, nil
			if len(subtasks) > 0 {
				r.subtask, subtasks = &subtasks[0], subtasks[1:]
				r.usage = r.subtask.Usage
			}
		}
		f(r)
	}
}

func (t Tickets) divided(by float64) Tickets {
	return Tickets{t.Total / by, t.Override / by, t.Functional / by, t.Share / by}
}

// eachIn calls f with the rows of the tasks of jobs that are in a phase in which they
// have no queue instance.
func (s *sections) eachIn(phase Phase, f func(*row)) {
	jobs := s.pending
	if phase == Finished {
		jobs = s.ended
	}
	var one [1]Range
	for _, i := range jobs {
		j := &s.jobs[i]
		for t := range j.Tasks {
			task := &j.Tasks[t]
			if task.Phase != phase {
				continue
			}
			r := &s.row
			*r = row{job: j, task: task, ids: task.IDs, slots: task.Slots, first: true, tickets: task.Tickets, usage: task.Usage}
			if !s.options.EachTask || phase == Finished || len(task.IDs) == 0 {
				f(r)
				continue
			}
			r.ids = one[:]
			for _, ids := range task.IDs {
				step := max(ids.Step, 1)
				for n := range max(ids.Last-ids.First+step, 0) / step {
					id := ids.First + n*step
					one[0] = Range{id, id, 1}
					f(r)
				}
			}
		}
	}
}
