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

// heap has the best of its items first.
type heap struct {
	items  []int32
	before func(i, j int32) bool
}

// order makes a heap of items in any order.
func (h *heap) order() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down moves an item to its place that has become worse.
func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if child+1 < len(h.items) && h.before(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.before(h.items[child], h.items[i]) {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}

// pop removes the first item.
func (h *heap) pop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
}

// queue is all pending tasks of a policy, by category. The one that is worth most is
// taken, which makes those that share something with it worth less, and so on.
//
// What a task is worth never grows. So what was worth most when it was looked at,
// and still is worth that, is the best one, and not everything has to be looked at
// for each task: that is what the heaps are for.
type queue struct {
	c     *calculation
	tasks []int32 // indexes, by category
	all   []category
}

// newQueue sorts the pending tasks into categories by what they have that of says
// is worth something; own is what a task has for itself. Tasks without anything are
// left out.
func (c *calculation) newQueue(dependent bool, of func(*Entity) float64, own func(*Task) float64) *queue {
	q := &queue{c: c}
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

// first is the first task of a category.
func (q *queue) first(k *category) *Task { return &q.c.Input.Tasks[q.tasks[k.first]] }

// take takes the first task out of a category.
func (q *queue) take(k *category) int32 {
	task := q.tasks[k.first]
	k.first++
	return task
}
