package scheduler

import (
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Decisions are the result of a scheduling run.
type Decisions struct {
	// Starts are the tasks that start, in the order in which it was decided.
	Starts []Start
	// Reservations are the places that were reserved for jobs with -R y.
	Reservations []Reserved
	// Suspensions are the tasks that suspend thresholds suspend and resume.
	Suspensions []ThresholdAction
	// Dropped are the queue instances that could not be used, and why, in the order in
	// which they were dropped: all jobs share these reasons.
	Dropped []Reason
	// Problems are tasks for which there is a place, and whose amounts are so different in
	// size from those in use there that they cannot be counted together: one for each
	// category of jobs, and Reasons has all the places. Jobs whose entitlements are not among
	// those of the State are among the Problems, too: they count as jobs without any.
	Problems []error

	now      int64
	model    *Model
	bounds   priority.Bounds
	waiting  *ranking // nil where all have the same tickets
	running  map[*Running]tickets.Tickets
	reasons  []*categoryRun  // by category
	limited  map[string]bool // owners at maxujobs
	passed   map[*Job]int    // tasks with tickets of their own that have had their turn, and others behind them
	override float64
	schedule []ScheduleLine
}

// Start is a task that is to be started.
type Start struct {
	Job      *Job
	Task     uint32
	PE       PEID    // None for a serial task
	Grants   []Grant // the master first
	Priority priority.Priority
	Tickets  tickets.Tickets
	// Duration is how long the task was planned to last, in seconds, without
	// DURATION_OFFSET.
	Duration int64
}

// Reserved is a place that is kept free for a job from a time on.
type Reserved struct {
	Job    *Job
	Task   uint32
	At     int64
	Until  int64
	PE     PEID
	Grants []Grant
}

// ThresholdAction is what a suspend threshold does to a task.
type ThresholdAction struct {
	Task     *Running
	Instance InstanceID
	Resume   bool
}

// Of returns the priority of a waiting job, its next task that is, and its tickets, as qstat
// shows them. They are all 0 for a job that did not take part: one that is not enqueued or
// whose owner runs as many jobs as maxujobs of sched_conf(5) allows.
func (d *Decisions) Of(j *Job) (priority.Priority, tickets.Tickets) {
	if j.line == nil || d.limited[j.Owner] || d.model.startable(j) == 0 {
		return priority.Priority{}, tickets.Tickets{}
	}
	t := d.waiting.next(j, d.passed[j])
	p := priorityJob(j, t.Total)
	return d.model.weights.One(&p, &d.bounds, d.now), t
}

// OfRunning returns the same for a running task.
func (d *Decisions) OfRunning(r *Running) (priority.Priority, tickets.Tickets) {
	t := d.running[r]
	j := priorityJob(r.Job, t.Total)
	p := d.model.weights.One(&j, &d.bounds, d.now)
	if r.Idle() {
		// It has no part in the scale of the others.
		p.Priority += d.model.weights.Urgency * (r.Urgency - p.NormalizedUrgency)
		p.NormalizedUrgency = r.Urgency
	}
	return p, t
}

// ActiveOverride returns the sum of the override tickets of running tasks
// (weight_tickets_override).
func (d *Decisions) ActiveOverride() float64 { return d.override }

// Reasons returns why a waiting job was not started, as far as its own requests are the
// cause. Those of Dropped come before them.
func (d *Decisions) Reasons(j *Job) []Reason {
	var reasons []Reason
	left := d.model.startable(j)
	if left < j.Tasks.Len() {
		reasons = append(reasons, Reason{kind: arrayLimit, model: d.model, category: j.Category})
	}
	i := j.Category.index
	switch {
	case left == 0:
	case d.limited[j.Owner]:
		reasons = append(reasons, Reason{kind: userLimit, model: d.model, category: j.Category})
	case i < len(d.reasons) && d.reasons[i] != nil:
		reasons = append(reasons, d.reasons[i].reasons...)
	}
	return reasons
}

func priorityJob(j *Job, total float64) priority.Job {
	return priority.Job{
		ID: j.ID, Submitted: j.Submitted, Deadline: j.Deadline, Priority: j.Priority,
		Resources: j.Category.resources, Tickets: total,
	}
}
