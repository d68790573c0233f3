package scheduler

import (
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Decisions are the result of a scheduling run.
type Decisions struct {
	// Starts are the tasks that start, in the order of the decisions.
	Starts []Start
	// Reservations are the places that were reserved for jobs with -R y.
	Reservations []Reserved
	// Suspensions are the tasks that suspend thresholds suspend and resume.
	Suspensions []ThresholdAction
	// Dropped are the reasons why queue instances could not be used, in the order in which they
	// were dropped. They apply to all jobs.
	Dropped []Reason
	// Problems are errors that affect decisions. One kind is a task for which there is a place, but
	// whose amounts differ so much in size from the amounts in use that the sum cannot be computed
	// exactly: Problems has one error per category of jobs, and Reasons has all places. Another is
	// a job whose entitlements do not belong to the State: it is treated as a job without any.
	Problems []error

	now      int64
	model    *Model
	bounds   priority.Bounds
	waiting  *ranking // nil if all have the same tickets
	running  map[*Running]tickets.Tickets
	reasons  []*categoryRun  // by category
	limited  map[string]bool // owners with maxujobs active jobs
	passed   map[*Job]int    // tasks with tickets of their own that this run has already considered
	override float64
	schedule []ScheduleLine
}

// Start is a task that the master should start.
type Start struct {
	Job      *Job
	Task     uint32
	PE       PEID    // None for a serial task
	Grants   []Grant // the master first
	Priority priority.Priority
	Tickets  tickets.Tickets
	// Duration is the planned duration of the task in seconds, without DURATION_OFFSET.
	Duration int64
}

// Reserved is a place that is reserved for a job from a time on.
type Reserved struct {
	Job    *Job
	Task   uint32
	At     int64
	Until  int64
	PE     PEID
	Grants []Grant
}

// ThresholdAction is the suspension or resumption of a task by a suspend threshold.
type ThresholdAction struct {
	Task     *Running
	Instance InstanceID
	Resume   bool
}

// Of returns the priority and the tickets of a pending job's next task, as qstat shows them. They
// are 0 for a job that did not take part: one that is not enqueued, or whose owner has as many
// active jobs as maxujobs of sched_conf(5) allows.
func (d *Decisions) Of(j *Job) (priority.Priority, tickets.Tickets) {
	if j.line == nil || d.limited[j.Owner] || d.model.startable(j) == 0 {
		return priority.Priority{}, tickets.Tickets{}
	}
	t := d.waiting.next(j, d.passed[j])
	p := priorityJob(j, t.Total)
	return d.model.weights.One(&p, &d.bounds, d.now), t
}

// OfRunning returns the priority and the tickets of a running task.
func (d *Decisions) OfRunning(r *Running) (priority.Priority, tickets.Tickets) {
	t := d.running[r]
	j := priorityJob(r.Job, t.Total)
	p := d.model.weights.One(&j, &d.bounds, d.now)
	if r.Idle() {
		// A suspended task is not scaled with the others.
		p.Priority += d.model.weights.Urgency * (r.Urgency - p.NormalizedUrgency)
		p.NormalizedUrgency = r.Urgency
	}
	return p, t
}

// ActiveOverride returns the sum of the override tickets of running tasks
// (weight_tickets_override).
func (d *Decisions) ActiveOverride() float64 { return d.override }

// Reasons returns the reasons why a pending job was not started, as far as they are due to its own
// requests. The reasons of Dropped precede them.
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
