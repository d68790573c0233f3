package view

import (
	"math"
	"slices"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/requests"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Jobs returns all jobs in the queue, sorted by number.
func (v *View) Jobs() []qstat.Job {
	var jobs []qstat.Job
	for _, j := range v.cell.Jobs() {
		jobs = append(jobs, v.Job(j))
	}
	return jobs
}

// Job returns one of the jobs.
func (v *View) Job(j *cell.Job) qstat.Job {
	s := qstat.Job{
		ID: int(j.ID()), Name: j.Name(), Owner: j.Owner(), Project: j.Project,
		Department: v.department(j.Owner(), j.Group),
		Submitted:  j.Submitted(), Deadline: j.Deadline(), POSIXPriority: j.Priority(),
		OverrideTickets: int(j.OverrideTickets()), JobShare: int(j.Shares()),
		Predecessors: numbers(j.Predecessors()), ArrayPredecessors: numbers(j.TaskPredecessors()),
	}
	v.addRequest(&s, j)
	v.addTasks(&s, j)
	return s
}

// Finished returns the jobs that left the queue most recently, in the order of their ends
// (qstat(1), -s z).
func (v *View) Finished() []qstat.Job {
	var jobs []qstat.Job
	for _, f := range v.cell.Finished() {
		s := qstat.Job{
			ID: int(f.ID()), Name: f.Name(), Owner: f.Owner(), Project: f.Project, Department: v.department(f.Owner(), f.Group),
			Submitted: f.Submitted(), Deadline: f.Deadline(), POSIXPriority: f.Job.Priority(),
			OverrideTickets: int(f.OverrideTickets()), JobShare: int(f.Shares()),
		}
		v.addRequest(&s, f.Job)
		t := qstat.Task{
			Phase: qstat.Finished, State: "z", Slots: f.Scheduled().Category.AssumedSlots(),
			Priority: f.Priority, NormalizedTickets: f.NormalizedTickets,
		}
		if a := f.Request().Array; a != nil {
			t.IDs = []qstat.Range{{First: a.First, Last: a.Last, Step: a.Step}}
		}
		s.Tasks = []qstat.Task{t}
		jobs = append(jobs, s)
	}
	return jobs
}

func numbers(ids []uint32) []int {
	var list []int
	for _, id := range ids {
		list = append(list, int(id))
	}
	return list
}

// addRequest fills in the requests of the job.
func (v *View) addRequest(s *qstat.Job, j *cell.Job) {
	r := j.Request()
	s.Checkpoint, s.MasterQueues = r.Checkpoint, r.MasterQueues
	s.PredecessorsAsked, s.ArrayPredecessorsAsked = r.PrecedingJobs, r.PrecedingTasks
	for _, q := range r.Queues {
		if q.Soft {
			s.SoftQueues = append(s.SoftQueues, q.Reference)
		} else {
			s.HardQueues = append(s.HardQueues, q.Reference)
		}
	}
	for _, l := range r.Resources {
		q := qstat.Request{Name: l.Name, Value: l.Value}
		if l.Soft {
			s.Soft = append(s.Soft, q)
			continue
		}
		if c := j.Scheduled().Category; c != nil {
			q.Urgency = c.UrgencyOf(l.Name)
		}
		s.Hard = append(s.Hard, q)
	}
	if r.PE != nil {
		s.PE = &qstat.PE{Name: r.PE.Name}
		for _, x := range r.PE.Ranges {
			s.PE.Slots = append(s.PE.Slots, qstat.Range{First: x.Min, Last: x.Max, Step: 1})
		}
	}
	if r.Binding != nil {
		s.Binding = requests.Binding(r.Binding).String()
	}
}

// addTasks fills in the rows of a job.
func (v *View) addTasks(s *qstat.Job, j *cell.Job) {
	slots := j.Scheduled().Category.AssumedSlots()
	var pri priority.Priority
	var tick tickets.Tickets
	if v.decisions != nil {
		pri, tick = v.decisions.Of(j.Scheduled())
	}
	// If the pending tasks of a job do not take part in a run, Grid Engine clears the values by
	// which its running tasks are ranked (tested).
	ranked, idle := Pending(j), false
	for _, t := range j.Tasks() {
		if t.Running() == nil {
			continue
		}
		p, k := v.ofRunning(t)
		// A task that was suspended individually keeps its own values only while no other task runs
		// (tested).
		if !ranked || idle && !t.Running().Idle() {
			setUrgency(s, &p)
			ranked, idle = true, t.Running().Idle()
		}
		s.Tasks = append(s.Tasks, v.running(t, &p, &k))
	}
	if Pending(j) {
		setUrgency(s, &pri)
	}
	waiting := qstat.Task{
		Phase: qstat.Pending, Slots: slots, Priority: pri.Priority,
		NormalizedTickets: pri.NormalizedTickets, Tickets: shown(tick), Share: tick.Portion,
	}
	for _, w := range v.cell.WaitingTasks(j) {
		row := waiting
		row.State = w.State
		if w.Kept {
			row.Tickets, row.Share = qstat.Tickets{}, 0
			row.Priority, row.NormalizedTickets = w.Priority, w.NormalizedTickets
		}
		if j.IsArray() {
			row.IDs = ranges(w.Tasks)
		}
		s.Tasks = append(s.Tasks, row)
	}
}

func setUrgency(s *qstat.Job, p *priority.Priority) {
	s.NormalizedUrgency, s.NormalizedPriority = p.NormalizedUrgency, p.NormalizedPriority
	s.Urgency = qstat.Urgency{
		Total: p.Urgency, Resource: p.ResourceContribution, Waiting: p.WaitingTimeContribution, Deadline: p.DeadlineContribution,
	}
}

func ranges(l rangelist.List) []qstat.Range {
	var list []qstat.Range
	for r := range l.Ranges() {
		list = append(list, qstat.Range{First: r.First, Last: r.Last, Step: r.Step})
	}
	return list
}

func shown(t tickets.Tickets) qstat.Tickets {
	return qstat.Tickets{Total: t.Total, Override: t.Override, Functional: t.Functional, Share: t.Share}
}

// ofRunning returns the priority of a running task: as of the last scheduling run, or if that run
// started the task, as of the task's start.
func (v *View) ofRunning(t *cell.Task) (priority.Priority, tickets.Tickets) {
	if v.decisions == nil {
		return priority.Priority{Priority: t.Priority}, tickets.Tickets{}
	}
	if s := v.started[taskKey{t.Job.ID(), t.Number}]; s != nil {
		return s.Priority, s.Tickets
	}
	return v.decisions.OfRunning(t.Running())
}

// running returns the row of a task that runs.
func (v *View) running(t *cell.Task, p *priority.Priority, k *tickets.Tickets) qstat.Task {
	run := t.Running()
	row := qstat.Task{
		Phase: qstat.Running, State: t.State(), Started: t.Started, Priority: p.Priority,
		NormalizedTickets: p.NormalizedTickets, Tickets: shown(*k), Share: k.Portion,
	}
	if t.Job.IsArray() {
		row.IDs = []qstat.Range{{First: int(t.Number), Last: int(t.Number), Step: 1}}
	}
	if t.Used != (tickets.Amounts{}) {
		row.Usage = &qstat.Usage{CPU: t.Used[tickets.CPU], Memory: t.Used[tickets.Mem], IO: t.Used[tickets.IO]}
	}
	var pe *qconf.ParallelEnvironment
	if run.PE != scheduler.None {
		row.GrantedPE = v.model.PEName(run.PE)
		pe, _ = v.cell.Cluster().PE(row.GrantedPE)
	}
	row.ExtraMaster = pe != nil && !pe.JobIsFirstTask
	all := run.Slots()
	for _, g := range run.Grants {
		grant := qstat.Grant{Queue: v.model.InstanceName(g.Instance), Slots: g.Slots, Elements: v.elements(&g)}
		if pe != nil && pe.ControlSlaves && all > 0 {
			part := part(shown(t.Tickets), float64(g.Slots)/float64(all))
			grant.Tickets = &part
		}
		row.Grants = append(row.Grants, grant)
	}
	return row
}

// elements returns the elements of resource maps in a grant.
func (v *View) elements(g *scheduler.Grant) (list []qstat.MapElements) {
	for _, t := range g.Elements {
		host := v.model.HostName(v.model.HostOf(g.Instance))
		if t.At == scheduler.AtGlobal() {
			host = qconf.GlobalHost
		}
		list = append(list, qstat.MapElements{Name: v.attribute(t.Attribute), Host: host, IDs: t.IDs})
	}
	return list
}

// part returns a fraction of tickets. It rounds values next to a whole number, so that the parts
// add up to the whole.
func part(t qstat.Tickets, f float64) qstat.Tickets {
	times := func(x float64) float64 {
		x *= f
		if r := math.Round(x); math.Abs(x-r) < 1e-9*max(1, r) {
			return r
		}
		return x
	}
	return qstat.Tickets{Total: times(t.Total), Override: times(t.Override), Functional: times(t.Functional), Share: times(t.Share)}
}

// SchedulingInfo returns the reasons why a job did not start in the last scheduling run, in the
// order of qstat -j: first the reasons that concern all jobs, then the job's own.
func (v *View) SchedulingInfo(j *cell.Job) []qstat.Reason {
	if v.decisions == nil {
		return nil
	}
	var list []qstat.Reason
	for i := range v.decisions.Dropped {
		list = append(list, reason(&v.decisions.Dropped[i], true))
	}
	of := func(number int, text string) []qstat.Reason {
		return append(list, qstat.Reason{Text: text, Number: number})
	}
	switch {
	case !Pending(j):
		return list
	case inError(j):
		return of(inErrors, "Job is in error state")
	case j.Problem != "":
		return of(unnumbered, j.Problem)
	// In this order (tested).
	case held(j), len(j.TaskPredecessors()) > 0 && j.Scheduled().Tasks.IsEmpty():
		return of(inHold, "Job is in hold state")
	case len(j.Predecessors()) > 0:
		return of(dependent, "job dropped because of job dependencies")
	case j.Start > v.now:
		return of(notYet, "execution time not reached")
	}
	if partlyHeld(j) {
		list = of(inHold, "Job is in hold state")
	}
	reasons := v.decisions.Reasons(j.Scheduled())
	for i := range reasons {
		list = append(list, reason(&reasons[i], false))
	}
	return list
}

// Pending reports whether a task of a job is pending.
func Pending(j *cell.Job) bool {
	if !j.Waiting.IsEmpty() {
		return true
	}
	for _, t := range j.Tasks() {
		if t.Running() == nil {
			return true
		}
	}
	return false
}

// held reports whether all pending tasks are held.
func held(j *cell.Job) bool {
	if !j.Waiting.IsEmpty() && j.Holds == 0 {
		return false
	}
	for _, t := range j.Tasks() {
		if t.Running() == nil && t.Holds == 0 {
			return false
		}
	}
	return true
}

// partlyHeld reports whether a pending task is held.
func partlyHeld(j *cell.Job) bool {
	return !j.Waiting.IsEmpty() && j.Holds != 0 ||
		slices.ContainsFunc(j.Tasks(), func(t *cell.Task) bool { return t.Running() == nil && t.Holds != 0 })
}

// inError reports whether there are pending tasks and all of them are in error state.
func inError(j *cell.Job) bool {
	found := false
	for _, t := range j.Tasks() {
		if t.Running() == nil {
			if t.Error == "" {
				return false
			}
			found = true
		}
	}
	return found && j.Waiting.IsEmpty()
}
