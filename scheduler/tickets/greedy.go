package tickets

import (
	"cmp"
	"slices"
)

// category is a list of pending tasks that a policy cannot tell apart. Only the first one of them
// is compared.
type category struct {
	user, project, department int32 // None also for objects without shares
	own                       float64
	first, end                int32   // in queue.tasks
	value                     float64 // of its first task, when it was computed last
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

// queue holds all pending tasks of a policy by category. The policy repeatedly takes the task with
// the highest value, which reduces the values of tasks that share an object with it.
//
// The value of a task never grows. So if the task with the highest stored value still has that
// value, it is the best one. With heaps of stored values, not all values have to be computed again
// for each task.
type queue struct {
	c     *calculation
	tasks []int32 // indexes, by category
	all   []category
}

// newQueue sorts the pending tasks into categories by their objects for which of returns a positive
// value; own returns a task's own value. Tasks without any value are left out.
func (c *calculation) newQueue(dependent bool, of func(*Entity) float64, own func(*Task) float64) *queue {
	q := &queue{c: c}
	has := func(entities []Entity, i int32) int32 {
		if i != None && of(&entities[i]) == 0 {
			return None
		}
		return i
	}
	type key struct {
		user, project, department int32
		own                       float64
	}
	at := map[key]int32{} // in q.all
	var last key
	var lastAt int32
	which := make([]int32, len(c.Input.Tasks)) // the category of each task, None for none
	for i := range which[:len(c.active)] {
		which[i] = None
	}
	for i := len(c.active); i < len(which); i++ {
		t := &c.Input.Tasks[i]
		which[i] = None
		k := key{has(c.Users, t.User.Index()), has(c.Projects, t.Project.Index()), has(c.Departments, t.Department.Index()), own(t)}
		if k == (key{None, None, None, 0}) {
			continue
		}
		if len(q.all) == 0 || k != last {
			var known bool
			if lastAt, known = at[k]; !known {
				lastAt = int32(len(q.all))
				at[k] = lastAt
				q.all = append(q.all, category{user: k.user, project: k.project, department: k.department, own: k.own})
			}
			last = k
		}
		which[i] = lastAt
		q.all[lastAt].end++ // a number until fill
	}
	q.fill(which, dependent)
	return q
}

// fill lists the tasks by their categories: of says of each task in which it is. The first
// of a category is the one whose job was changed first. A policy of policy_hierarchy sorts
// them instead: by the tickets of the policies before, and by the numbers of their jobs
// (tested).
func (q *queue) fill(of []int32, dependent bool) {
	var n int32
	for i := range q.all {
		k := &q.all[i]
		k.first, k.end, n = n, n, n+k.end
	}
	q.tasks = make([]int32, n)
	for task, i := range of {
		if i != None {
			k := &q.all[i]
			q.tasks[k.end] = int32(task)
			k.end++
		}
	}
	before := func(i, j int32) int {
		if dependent && q.c.hier[i] != q.c.hier[j] {
			return cmp.Compare(q.c.hier[j], q.c.hier[i])
		}
		if dependent {
			return byID(&q.c.Input.Tasks[i], &q.c.Input.Tasks[j])
		}
		return byChange(&q.c.Input.Tasks[i], &q.c.Input.Tasks[j])
	}
	for i := range q.all {
		// Most are sorted already: tasks come in the order of their job numbers.
		if list := q.tasks[q.all[i].first:q.all[i].end]; !slices.IsSortedFunc(list, before) {
			slices.SortFunc(list, before)
		}
	}
}

func byChange(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), byID(a, b))
}

func byID(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task))
}

// first returns the first task of a category.
func (q *queue) first(k *category) *Task { return &q.c.Input.Tasks[q.tasks[k.first]] }

// take takes the first task out of a category.
func (q *queue) take(k *category) int32 {
	task := q.tasks[k.first]
	k.first++
	return task
}
