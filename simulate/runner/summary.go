package runner

import (
	"cmp"
	"maps"
	"slices"
)

// Summary summarizes a result in numbers.
type Summary struct {
	Duration int64        `json:"duration"` // of the simulation, in seconds
	Runs     int          `json:"runs"`     // of the scheduler
	Started  int          `json:"started"`  // number of tasks
	Finished int          `json:"finished"`
	Waiting  int          `json:"waiting"` // number of tasks that never started
	Refused  int          `json:"refused"` // number of jobs
	Wait     Distribution `json:"wait"`    // seconds from the submission of the job, for tasks that started
	// Slowdown is the bounded slowdown of tasks that ended: (wait + run) / max(run, 10), but at
	// least 1. Times are in seconds; run times below ten seconds count as ten.
	Slowdown Distribution `json:"boundedSlowdown"`
	Users    []Use        `json:"users"`
	Projects []Use        `json:"projects"` // without tasks of no project
	Queues   []Use        `json:"queues"`
	Total    Use          `json:"total"`
}

// Distribution describes the distribution of a list of numbers.
type Distribution struct {
	Mean         float64 `json:"mean"`
	Median       float64 `json:"median"`
	Percentile95 float64 `json:"percentile95"`
	Max          float64 `json:"max"`
}

// Use is the usage of a user, a project or a queue.
type Use struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"` // number of tasks that started
	// SlotSeconds is the number of slots in use times seconds, including suspended tasks.
	SlotSeconds float64 `json:"slotSeconds"`
	// Slots is the number of slots of the queue, or of the whole cluster.
	Slots int `json:"slots"`
	// Utilization is SlotSeconds divided by Slots times the duration of the simulation, 0 to 1.
	Utilization float64 `json:"utilization"`
	// Wait is the mean wait of the tasks, in seconds.
	Wait float64 `json:"wait"`

	waits float64
}

// bound is the run time in seconds below which a slowdown is not meaningful.
const bound = 10

// Summary summarizes the result.
func (r *Result) Summary() *Summary {
	s := &Summary{Duration: r.End, Runs: r.Runs, Refused: len(r.Refused), Total: Use{Name: "total"}}
	var waits, slowdowns []float64
	users, projects, queues := map[string]*Use{}, map[string]*Use{}, map[string]*Use{}
	for name := range r.Slots {
		use(queues, name)
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Start < 0 {
			s.Waiting += t.Waiting
			continue
		}
		s.Started++
		wait := float64(t.Start - t.Submit)
		waits = append(waits, wait)
		end := r.End
		if t.End >= 0 {
			s.Finished++
			end = t.End
			run := float64(t.End - t.Start)
			slowdowns = append(slowdowns, max(1, (wait+run)/max(run, bound)))
		}
		lasted := float64(end - t.Start)
		s.Total.add(lasted*float64(t.Slots), wait)
		use(users, t.User).add(lasted*float64(t.Slots), wait)
		if t.Project != "" {
			use(projects, t.Project).add(lasted*float64(t.Slots), wait)
		}
		seen := ""
		for _, g := range t.Grants {
			q := use(queues, g.Queue)
			q.SlotSeconds += lasted * float64(g.Slots)
			if g.Queue != seen {
				q.Tasks++
				q.waits += wait
			}
			seen = g.Queue
		}
	}
	s.Wait, s.Slowdown = distribution(waits), distribution(slowdowns)
	all := 0
	for _, n := range r.Slots {
		all += n
	}
	s.Total.finish(all, r.End)
	s.Users, s.Projects = sorted(users, all, r.End), sorted(projects, all, r.End)
	s.Queues = sorted(queues, 0, r.End)
	for i := range s.Queues {
		s.Queues[i].finish(r.Slots[s.Queues[i].Name], r.End)
	}
	return s
}

func use(of map[string]*Use, name string) *Use {
	u := of[name]
	if u == nil {
		u = &Use{Name: name}
		of[name] = u
	}
	return u
}

func (u *Use) add(slotSeconds, wait float64) {
	u.Tasks++
	u.SlotSeconds += slotSeconds
	u.waits += wait
}

func (u *Use) finish(slots int, duration int64) {
	u.Slots = slots
	if offered := float64(slots) * float64(duration); offered > 0 {
		u.Utilization = u.SlotSeconds / offered
	}
	if u.Tasks > 0 {
		u.Wait = u.waits / float64(u.Tasks)
	}
}

func sorted(of map[string]*Use, slots int, duration int64) []Use {
	list := []Use{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		of[name].finish(slots, duration)
		list = append(list, *of[name])
	}
	return list
}

// distribution computes the distribution of a list; all fields are 0 for an empty list. The median
// and the percentile are elements of the list: the smallest one that is not below the given share
// of the list.
func distribution(list []float64) Distribution {
	if len(list) == 0 {
		return Distribution{}
	}
	slices.SortFunc(list, cmp.Compare[float64])
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	at := func(part int) float64 { return list[(len(list)*part+99)/100-1] }
	return Distribution{Mean: sum / float64(len(list)), Median: at(50), Percentile95: at(95), Max: list[len(list)-1]}
}
