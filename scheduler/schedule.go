package scheduler

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/scheduler/quota"
)

// ScheduleLine is a line of the schedule file (sched_conf(5), params, MONITOR): the present or
// planned use of a resource by a task.
type ScheduleLine struct {
	Job, Task       uint32 // for an array job its task, otherwise 1
	State           string // RUNNING, SUSPENDED, STARTING or RESERVING
	Start, Duration int64
	Level           byte   // P, G, H, Q or L: environment, cluster, host, queue instance, resource quota set
	Object          string // the name of what Level says
	Resource        string // for a resource quota set the key of the usage, as in qquota(1): alice////n1/
	Amount          float64
}

// Schedule returns the lines of the schedule file for a run. It is empty if the configuration does
// not request them, or if nothing is planned ahead.
func (d *Decisions) Schedule() []ScheduleLine { return d.schedule }

// monitor adds the lines of a task in the original's order: the environment, the cluster, and then
// for each grant the host, the instance and the resource quota sets. The complexes of a place are in the
// order of its configuration, with the slots of an instance last (tested).
func (r *run) monitor(state string, j *Job, task uint32, pe PEID, grants []Grant, at span) {
	if !r.model.scheduler.Params.Monitor {
		return
	}
	base := ScheduleLine{Job: j.ID, Task: max(task, 1), State: state, Start: at.start, Duration: at.duration}
	line := func(level byte, object, resource string, amount float64) ScheduleLine {
		l := base
		l.Level, l.Object, l.Resource, l.Amount = level, object, resource, amount
		return l
	}
	var cluster, instance, rest []ScheduleLine
	for p, part := range r.model.portions(grants, Away{}) {
		lines := r.ordered(j.Category, p, func(u *use) (l ScheduleLine, ok bool) {
			n := u.times(part)
			return line(p.letter()-'a'+'A', r.model.placeName(p), r.model.attributes[u.attribute].Name, float64(n)*u.each), n > 0 && !u.others
		})
		switch p.layer {
		case atQueue:
			instance = lines
		case atHost:
			rest = append(append(rest, lines...), instance...)
			r.eachClaim(j.Category, pe, grants[part.grant], part.master, func(c *quota.Claim, n int) {
				if c.Each > 0 {
					rule, key, _ := r.model.limits.sets.Describe(c.Counter)
					set, _, _ := strings.Cut(rule, "/")
					rest = append(rest, line('L', set, key, float64(n)*c.Each))
				}
			})
		default:
			cluster = lines
		}
	}
	if pe != None {
		total := 0
		for _, g := range grants {
			total += g.Slots
		}
		r.decisions.schedule = append(r.decisions.schedule, line('P', r.model.PEName(pe), "slots", float64(total)))
	}
	r.decisions.schedule = append(append(r.decisions.schedule, cluster...), rest...)
}

// monitorRunning adds the lines of tasks that have started, the suspended ones at the end (tested).
func (r *run) monitorRunning(list []*Running) {
	if !r.model.scheduler.Params.Monitor {
		return
	}
	for _, state := range []string{"RUNNING", "SUSPENDED"} {
		for _, t := range list {
			if (t.Suspended != 0) == (state == "SUSPENDED") {
				r.monitor(state, t.Job, t.Task, t.PE, t.Grants, r.expected(t))
			}
		}
	}
}

// ordered returns the lines of a place, with its complexes in the order of complex_values and then the
// slots of an instance.
func (r *run) ordered(c *Category, p Place, line func(*use) (ScheduleLine, bool)) []ScheduleLine {
	var lines []ScheduleLine
	var at []int
	written := r.model.layerAt(p).written
	_ = c.uses(p, func(u use) error {
		l, ok := line(&u)
		if !ok {
			return nil
		}
		n := slices.Index(written, u.attribute)
		if n < 0 {
			n = len(written)
		}
		i, _ := slices.BinarySearch(at, n)
		at, lines = slices.Insert(at, i, n), slices.Insert(lines, i, l)
		return nil
	})
	return lines
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
