package scheduler

import (
	"math"
	"slices"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/scheduler/diagram"
)

// plannedCores are cores that are in use for a time.
type plannedCores struct {
	from, until int64
	cores       []topology.Pair
}

// planCores books the cores of a task for a time.
func (r *run) planCores(grants []Grant, at span) {
	if r.cores == nil {
		return
	}
	for _, g := range grants {
		if len(g.Cores) > 0 {
			r.planCoresOf(r.model.instances[g.Instance].host, g.Cores, at)
		}
	}
}

func (r *run) planCoresOf(id HostID, cores []topology.Pair, at span) {
	r.plan.cores[id] = append(r.plan.cores[id], plannedCores{at.start, at.until(), cores})
	r.plan.add(&r.plan.coreTimes, at.booking(1, 1))
}

// planReportedCores books the cores that hosts report as in use until the next run, when a newer
// report may exist. The cores of running tasks are booked for longer.
func (r *run) planReportedCores() {
	interval := int64(math.Ceil(r.model.scheduler.ScheduleInterval.Seconds()))
	for id := range r.cores {
		if reported := r.cores[id].reported; len(reported) > 0 {
			r.planCoresOf(HostID(id), reported, span{r.now, max(interval, 1)})
		}
	}
}

// coresFrom returns the time from which on a host has the cores for a serial job.
func (r *run) coresFrom(q *query, id HostID) int64 {
	if !q.category.binds() || !r.cores[id].known() {
		return r.now
	}
	times := []int64{r.now}
	for _, b := range r.plan.cores[id] {
		if b.until > r.now {
			times = append(times, b.until)
		}
	}
	slices.Sort(times)
	for _, t := range times {
		q := q.during(span{t, diagram.Forever})
		if r.coresFor(&q, id, 1) > 0 {
			return t
		}
	}
	return diagram.Forever
}
