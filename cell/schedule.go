package cell

import (
	"fmt"
	"math"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/value"
	"github.com/execd-project/execd/submit"
)

// Run is the result of a scheduling run.
type Run struct {
	Decisions *scheduler.Decisions
	Actions   []Action
	// Immediate are the results of jobs with -now y.
	Immediate []Immediate
	// Problems are decisions that could not be made (scheduler.Decisions, Problems) or carried out.
	Problems []error
}

// Immediate is the result of a job with -now y.
type Immediate struct {
	Job     uint32
	Started bool
	Events  []Event // the results for qsub
}

// Schedule executes a scheduling run: it decides which pending tasks start now, and books them. The
// tasks are Transferring until TaskStarted reports their start.
func (c *Cell) Schedule(now int64) *Run {
	c.tick(now)
	c.book(now)
	r := &Run{Decisions: c.state.Run(now)}
	c.decisions = r.Decisions
	r.Problems = append(r.Problems, r.Decisions.Problems...)
	c.followThresholds(now, r.Decisions.Suspensions)
	for i := range r.Decisions.Starts {
		if err := c.start(now, &r.Decisions.Starts[i]); err != nil {
			r.Problems = append(r.Problems, err)
		}
	}
	c.settleImmediate(now, r)
	r.Actions = c.take()
	return r
}

// start books a task for its start.
func (c *Cell) start(now int64, s *scheduler.Start) error {
	j := c.jobs[s.Job.ID]
	if j == nil {
		return fmt.Errorf("cannot start task %d.%d: there is no such job", s.Job.ID, s.Task)
	}
	run := &scheduler.Running{
		Job: s.Job, Task: s.Task, Started: now, PE: s.PE, Grants: s.Grants, Limit: c.grantedLimit(s),
	}
	hosts := c.hostsOf(s.Grants)
	before := c.subordination.usedSlots(hosts)
	if err := c.state.Start(run); err != nil {
		return fmt.Errorf("cannot start task %d.%d: %w", s.Job.ID, s.Task, err)
	}
	t := c.enrol(j, s.Task)
	t.run, t.Phase, t.Started = run, Transferring, now
	t.Priority, t.NormalizedTickets = s.Priority.Priority, s.Priority.NormalizedTickets
	t.Tickets, t.Live = s.Tickets, Live{}
	j.sched.Active++
	c.changed(j)
	if j.sched.Tasks = j.sched.Tasks.Remove(int(s.Task)); j.sched.Tasks.IsEmpty() {
		c.state.Dequeue(&j.sched)
	}
	c.touchTask(t)
	c.occupy(t)
	c.act(StartTask, t)
	c.resuspend(t)
	c.subordinate(hosts, before)
	return nil
}

// grantedLimit returns the time limit of a task: the smallest limit of its request and its queue
// instances (queue_conf(5), s_rt and h_rt), 0 for no limit.
func (c *Cell) grantedLimit(s *scheduler.Start) int64 {
	limit, _ := requestedLimit(c.jobs[s.Job.ID].asked)
	for _, g := range s.Grants {
		rt := c.model.Settings(g.Instance).Limits[job.RT]
		limit = min(limit, rt.Soft, rt.Hard)
	}
	if limit >= math.MaxInt32*1000 {
		return 0
	}
	return int64(limit)
}

// requestedLimit returns the smaller one of the hard requests h_rt and s_rt in seconds, quantity.Infinity for
// none, and whether there is any.
func requestedLimit(q *submit.Request) (limit uint64, requested bool) {
	limit = quantity.Infinity
	for _, r := range q.Resources {
		if r.Soft || r.Name != "h_rt" && r.Name != "s_rt" {
			continue
		}
		requested = true
		if v, err := value.Parse(value.Time, r.Value); err == nil && !v.IsInfinite() {
			limit = min(limit, uint64(max(v.Number(), 0)))
		}
	}
	return limit, requested
}

// settleImmediate removes jobs with -now y of which not all tasks could start.
func (c *Cell) settleImmediate(now int64, r *Run) {
	for _, j := range c.immediate {
		deleted := c.jobs[j.ID()] != j
		if !deleted {
			c.touchJob(j, jobState)
		}
		i := Immediate{Job: j.ID(), Started: !deleted && j.Waiting.IsEmpty()}
		if i.Started {
			i.Events = []Event{{Kind: ImmediateStarted, Job: j.ID(), Array: j.Request().Array}, submitted(j)}
		} else {
			// The original says that the job was submitted, although it has left (tested).
			i.Events = []Event{{Kind: ImmediateNotStarted}, submitted(j)}
			if !deleted {
				c.remove(now, j, nil)
			}
		}
		r.Immediate = append(r.Immediate, i)
	}
	c.immediate = nil
}
