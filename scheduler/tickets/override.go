package tickets

import (
	"cmp"
	"slices"
)

// overrides returns the override tickets that each of n tasks gets from an object: a part of them,
// or all of them if the tasks do not share them (sched_conf(5), share_override_tickets).
func (c *calculation) overrides(entities []Entity, i int32, tasks []int32, more int32) float64 {
	if i == None {
		return 0
	}
	if n := tasks[i] + more; c.Config.ShareOverrideTickets && n > 0 {
		return entities[i].OverrideTickets / float64(n)
	}
	return entities[i].OverrideTickets
}

// activeOverride computes the override tickets of running tasks (sge_priority(5), override policy):
// the tickets of the user, the project and the department, and the job's own.
func (c *calculation) activeOverride() {
	for i := range c.active {
		t := &c.active[i]
		c.Result.Tasks[i].Override = c.overrides(c.Users, t.User.Index(), c.running.users, 0) +
			c.overrides(c.Projects, t.Project.Index(), c.running.projects, 0) +
			c.overrides(c.Departments, t.Department.Index(), c.running.departments, 0) + t.OverrideTickets
		c.ActiveOverride += c.Result.Tasks[i].Override
	}
}

// shared holds the categories with the same project and department. The tickets of these two change
// for all of the categories at once and by the same amount, so the categories are ordered by the
// tickets of users and jobs. So when a task of a project with many users is taken, the others need
// not be computed again.
type shared struct {
	project, department int32
	categories          heap
	key                 float64 // of the first task, when it was computed last
}

// pendingOverride computes the override tickets of pending tasks. If tasks share tickets, the task
// that would get the most if it were started gets these, and counts as running from then on; among
// equal ones it is the task with the smallest job number. Tickets of preceding policies only order
// the tasks within a category.
func (c *calculation) pendingOverride(dependent bool) {
	q := c.newQueue(dependent,
		func(e *Entity) float64 { return e.OverrideTickets },
		func(t *Task) float64 { return t.OverrideTickets })
	running := c.running.clone()
	own := func(k *category) float64 { return c.overrides(c.Users, k.user, running.users, 1) + k.own }
	others := func(project, department int32) float64 {
		return c.overrides(c.Projects, project, running.projects, 1) + c.overrides(c.Departments, department, running.departments, 1)
	}
	give := func(task int32, tickets float64) {
		c.Result.Tasks[task].Override = tickets
		if dependent {
			c.hier[task] += tickets
		}
	}
	if !c.Config.ShareOverrideTickets {
		for i := range q.all {
			k := &q.all[i]
			for _, task := range q.tasks[k.first:k.end] {
				give(task, own(k)+others(k.project, k.department))
			}
		}
		return
	}
	groups := q.groups(own)
	look := func(g *shared) {
		for {
			k := &q.all[g.categories.items[0]]
			before := k.key
			if k.key = own(k); k.key == before {
				g.key = k.key + others(g.project, g.department)
				return
			}
			g.categories.down(0)
		}
	}
	h := &heap{before: func(i, j int32) bool {
		a, b := &groups[i], &groups[j]
		if a.key != b.key {
			return a.key > b.key
		}
		return byID(q.first(&q.all[a.categories.items[0]]), q.first(&q.all[b.categories.items[0]])) < 0
	}}
	for i := range groups {
		h.items = append(h.items, int32(i))
		look(&groups[i])
	}
	h.order()
	for len(h.items) > 0 {
		g := &groups[h.items[0]]
		before, first := g.key, g.categories.items[0]
		look(g)
		if g.key != before || g.categories.items[0] != first {
			h.down(0)
			continue
		}
		k := &q.all[first]
		running.add(q.first(k))
		give(q.take(k), g.key)
		if k.first < k.end {
			g.categories.down(0)
		} else if g.categories.pop(); len(g.categories.items) == 0 {
			h.pop()
			continue
		}
		h.down(0)
	}
}

// groups sorts the categories into groups and looks at each once.
func (q *queue) groups(own func(*category) float64) []shared {
	before := func(i, j int32) bool {
		a, b := &q.all[i], &q.all[j]
		if a.key != b.key {
			return a.key > b.key
		}
		return byID(q.first(a), q.first(b)) < 0
	}
	order := make([]int32, len(q.all))
	for i := range order {
		order[i] = int32(i)
		q.all[i].key = own(&q.all[i])
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &q.all[i], &q.all[j]
		return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.department, b.department), cmp.Compare(i, j))
	})
	var groups []shared
	from := 0
	for i, item := range order {
		k := &q.all[item]
		if i+1 < len(order) {
			if next := &q.all[order[i+1]]; next.project == k.project && next.department == k.department {
				continue
			}
		}
		groups = append(groups, shared{project: k.project, department: k.department, categories: heap{order[from : i+1], before}})
		groups[len(groups)-1].categories.order()
		from = i + 1
	}
	return groups
}
