package scheduler

import (
	"cmp"
	"slices"
)

// ScheduleLine is a line of the schedule file (sched_conf(5), params, MONITOR): the present or
// planned use of a resource by a task.
type ScheduleLine struct {
	Job, Task       uint32 // for an array job its task, otherwise 1
	State           string // RUNNING, SUSPENDED, STARTING or RESERVING
	Start, Duration int64
	Level           byte // P, G, H or Q: environment, cluster, host, queue instance
	Object          string
	Resource        string
	Amount          float64
}

// Schedule returns the lines of the schedule file for a run. It is empty if the configuration does
// not request them, or if nothing is planned ahead.
func (d *Decisions) Schedule() []ScheduleLine { return d.schedule }

// monitor adds the lines of a task: the environment, the cluster, and then host and
// instance for each grant.
func (r *run) monitor(state string, j *Job, task uint32, pe PEID, grants []Grant, at span) {
	if !r.model.scheduler.Params.Monitor {
		return
	}
	base := ScheduleLine{Job: j.ID, Task: max(task, 1), State: state, Start: at.start, Duration: at.duration}
	add := func(level byte, object, resource string, amount float64) {
		l := base
		l.Level, l.Object, l.Resource, l.Amount = level, object, resource, amount
		r.decisions.schedule = append(r.decisions.schedule, l)
	}
	total := 0
	for _, g := range grants {
		total += g.Slots
	}
	if pe != None {
		add('P', r.model.PEName(pe), "slots", float64(total))
	}
	for _, level := range []byte{'G', 'H', 'Q'} {
		for p, part := range r.model.portions(grants, Away{}) {
			if p.letter() != level+'a'-'A' {
				continue
			}
			_ = j.Category.uses(p, func(u use) error {
				if n := u.times(part); n > 0 && !u.others {
					add(level, r.model.placeName(p), r.model.attributes[u.attribute].Name, float64(n)*u.each)
				}
				return nil
			})
		}
	}
}

func (m *Model) placeName(p Place) string {
	switch p.layer {
	case atQueue:
		return m.instances[p.index].name
	case atHost:
		return m.hosts[p.index].name
	}
	return m.global.name
}

// runningByID returns the running tasks by the numbers of their jobs.
func (s *State) runningByID() []*Running {
	list := slices.Clone(s.running)
	slices.SortFunc(list, func(a, b *Running) int {
		return cmp.Or(cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.Task, b.Task))
	})
	return list
}
