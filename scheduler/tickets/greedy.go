package tickets

import (
	"cmp"
	"slices"
)

// category is a list of pending tasks that a policy cannot tell apart. Only the
// first of them is looked at.
type category struct {
	user, project, department int32 // None also for those without shares
	own                       float64
	first, end                int32   // in queue.tasks
	value                     float64 // of its first task, when it was looked at last
	key                       float64 // value, with the tickets of other policies
}

// queue is all pending tasks of a policy. The one that is worth most is taken, which
// makes those that share something with it worth less, and so on.
//
// What a task is worth never grows. So the category that was worth most when it was
// looked at, and still is worth that, is the best one, and not all categories have
// to be looked at for each task: they are kept in a heap.
type queue struct {
	c         *calculation
	tasks     []int32 // indexes, by category
	all       []category
	heap      []int32
	dependent bool
	// bySubmission says that of tasks which are worth the same, the one that was
	// submitted first is taken. Else it is the one with the smaller job id.
	bySubmission bool
	worth        func(*category) float64
}

// newQueue sorts the pending tasks into categories by what they have that of says
// is worth something; own is what a task has for itself. Tasks without anything are
// left out.
func (c *calculation) newQueue(dependent bool, of func(*Entity) float64, own func(*Task) float64) *queue {
	q := &queue{c: c, dependent: dependent}
	has := func(entities []Entity, i int32) int32 {
		if i != None && of(&entities[i]) == 0 {
			return None
		}
		return i
	}
	// The categories are found by sorting, and not one by one: a user may invent as
	// many as there are job shares.
	type key struct {
		user, project, department int32
		own                       float64
	}
	keys := make([]key, len(c.Input.Tasks))
	for i := range c.Input.Tasks {
		t := &c.Input.Tasks[i]
		if t.Running {
			continue
		}
		keys[i] = key{has(c.Users, t.User), has(c.Projects, t.Project), has(c.Departments, t.Department), own(t)}
		if keys[i] != (key{None, None, None, 0}) {
			q.tasks = append(q.tasks, int32(i))
		}
	}
	slices.SortFunc(q.tasks, func(i, j int32) int {
		a, b := &keys[i], &keys[j]
		if *a != *b {
			return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.project, b.project),
				cmp.Compare(a.department, b.department), cmp.Compare(a.own, b.own))
		}
		if dependent && c.hier[i] != c.hier[j] {
			return cmp.Compare(c.hier[j], c.hier[i])
		}
		return bySubmission(&c.Input.Tasks[i], &c.Input.Tasks[j])
	})
	for i, t := range q.tasks {
		if i == 0 || keys[t] != keys[q.tasks[i-1]] {
			k := &keys[t]
			q.all = append(q.all, category{user: k.user, project: k.project, department: k.department, own: k.own, first: int32(i)})
		}
		q.all[len(q.all)-1].end = int32(i + 1)
	}
	return q
}

func bySubmission(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), byID(a, b))
}

func byID(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task))
}

// look computes what the first task of a category is worth now.
func (q *queue) look(k *category) {
	k.value = q.worth(k)
	k.key = k.value
	if q.dependent {
		k.key += q.c.hier[q.tasks[k.first]]
	}
}

// start makes the heap.
func (q *queue) start(worth func(*category) float64) {
	q.worth = worth
	q.heap = make([]int32, len(q.all))
	for i := range q.all {
		q.heap[i] = int32(i)
		q.look(&q.all[i])
	}
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// best finds the category whose first task is worth most.
func (q *queue) best() *category {
	for {
		k := &q.all[q.heap[0]]
		before := k.key
		if q.look(k); k.key == before {
			return k
		}
		q.down(0)
	}
}

// take takes the first task out of the best category.
func (q *queue) take(k *category) int32 {
	task := q.tasks[k.first]
	if k.first++; k.first == k.end {
		last := len(q.heap) - 1
		q.heap[0] = q.heap[last]
		q.heap = q.heap[:last]
	}
	q.down(0)
	return task
}

func (q *queue) before(i, j int32) bool {
	a, b := &q.all[i], &q.all[j]
	if a.key != b.key {
		return a.key > b.key
	}
	s, t := &q.c.Input.Tasks[q.tasks[a.first]], &q.c.Input.Tasks[q.tasks[b.first]]
	if q.bySubmission {
		return bySubmission(s, t) < 0
	}
	return byID(s, t) < 0
}

func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && q.before(q.heap[child+1], q.heap[child]) {
			child++
		}
		if !q.before(q.heap[child], q.heap[i]) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
