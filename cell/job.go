package cell

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// Job is a job that has not left the cell. Callers must not change it.
type Job struct {
	Group  string
	Host   string // the submit host
	Origin *Origin
	// Submission is the value of Caller.Submission at the submission.
	Submission string

	Project string // empty for none
	Start   int64  // the earliest start (qsub(1), -a); 0 for none
	// Holds apply to tasks that have no holds of their own.
	Holds submit.Holds
	// Waiting are the tasks that were never started and have no Task. A job that is not an array
	// job has task 1.
	Waiting rangelist.List
	// Version counts alterations and holds.
	Version int
	// Problem is the reason why the job cannot be scheduled after a change of the configuration.
	Problem string

	asked *submit.Request // the request, which may be shared with other jobs
	own   *own            // the values that differ from a shared request

	sched scheduler.Job
	tasks []*Task // by their numbers

	predecessors predecessors

	ran    bool    // a task of the job has finished
	ending *Ending // see LastEnding

	unsaved, saved jobParts    // changes since the last call of Changes, and the parts that it has returned
	kept           jobSizes    // size of the stored records
	scriptFile     *scriptFile // its script, if that is stored in a file
	scriptCounted  bool        // it counts in the owner's total
	encoded        []byte      // the request as it will be stored, nil until it is encoded
}

// ID returns the number of the job.
func (j *Job) ID() uint32 { return j.sched.ID }

// Name returns the name of the job (qsub(1), -N).
func (j *Job) Name() string {
	if j.own != nil {
		return j.own.name
	}
	return j.asked.Name
}

// Owner returns the owner of the job.
func (j *Job) Owner() string { return j.sched.Owner }

// Submitted returns the time of the submission.
func (j *Job) Submitted() int64 { return j.sched.Submitted }

// Deadline returns the deadline of -dl, 0 for none.
func (j *Job) Deadline() int64 { return j.sched.Deadline }

// Priority returns the POSIX priority (qsub(1), -p).
func (j *Job) Priority() int { return j.sched.Priority }

// OverrideTickets returns the tickets of qalter -ot.
func (j *Job) OverrideTickets() float64 { return j.sched.Override }

// Shares returns the shares of -js.
func (j *Job) Shares() float64 { return j.sched.Shares }

// IsArray reports whether it is an array job.
func (j *Job) IsArray() bool { return j.asked.Array != nil }

// Scheduled returns the scheduler's object for the job.
func (j *Job) Scheduled() *scheduler.Job { return &j.sched }

// Tasks returns the tasks that run, have run, or differ from the other pending tasks, by number.
func (j *Job) Tasks() []*Task { return j.tasks }

// Predecessors returns the jobs that must leave first (-hold_jid).
func (j *Job) Predecessors() []uint32 { return j.predecessors.jobs }

// TaskPredecessors returns the jobs whose tasks must finish first (-hold_jid_ad).
func (j *Job) TaskPredecessors() []uint32 { return j.predecessors.tasks }

// Phase is the progress of a task.
type Phase uint8

// The phases.
const (
	Pending      Phase = iota
	Transferring       // an execution host was ordered to start it, and has not confirmed it
	Running
)

// Task is a task with a state of its own: it runs, has run, or is itself held or in error. Callers
// must not change it.
type Task struct {
	Job    *Job
	Number uint32 // 1 for a job that is not an array job
	Phase  Phase
	Holds  submit.Holds
	// Error is the reason for the task's error state, empty if the task is not in error.
	Error string
	// Message is the reason why an earlier start failed without a fault of the job. qstat -j shows
	// it as error reason although the task is pending or running (tested).
	Message string
	// Deleted is set if the execution side was ordered to kill the task for good.
	Deleted bool
	// DeletedBy is USER@HOST of the qdel that did so, for the mail about the end; empty if the master
	// itself ended the task.
	DeletedBy string
	// Restarts is the number of further starts, done or due; it distinguishes the task's starts.
	// Refusals is the number of starts that the host refused, or that led to an error state that
	// was cleared.
	Restarts, Refusals int

	Started int64 // start time of a running task; 0 for others
	Used    tickets.Amounts
	Live    Live
	// Priority and NormalizedTickets are the values at the start.
	Priority, NormalizedTickets float64
	// Tickets are the tickets at the start. qstat always shows these for a parallel task whose
	// environment controls its slaves.
	Tickets tickets.Tickets

	run                           *scheduler.Running
	refused                       *refusal  // nil if the last start was not refused
	comeback                      backoff   // after an end with a request to run again
	unclean                       []unclean // hosts where an earlier start has not been cleaned up
	byUser, slotwise, byThreshold bool
	resumed                       bool            // resumed with one of its queue instances, regardless of the others
	booked                        tickets.Amounts // the part of Used that is in the ledger
	dirty                         bool
	unsaved                       bool // changed since the last call of Changes
	saved                         savedTask
	kept                          int64 // bytes
}

// Live is reported usage of a running task that is only displayed: it is not stored.
type Live struct {
	Vmem, MaxVmem int64   // bytes, now and at peak
	IOWait        float64 // seconds
	Refused       int64   // number of times that the kernel refused a process or thread to the task
	// GPU is the usage of the task's GPUs. IdleGPUs lists the GPUs that it has not used for ten minutes or
	// longer, sorted.
	GPU      job.GPUUsage
	IdleGPUs []string
}

// unclean is a host where processes of an earlier start may still run.
type unclean struct {
	attempt int
	host    string
}

// Running returns the scheduler's object for a running task, nil for a pending task.
func (t *Task) Running() *scheduler.Running { return t.run }

// Suspended reports whether the task is suspended for any reason.
func (t *Task) Suspended() bool { return t.run != nil && t.run.Suspended != 0 }

// Again reports whether the task has been started before and so runs again (RESTARTED, qsub(1)). A
// start that the host refused, or whose error was cleared, does not count.
func (t *Task) Again() bool { return t.Restarts > t.Refusals }

// State returns the state of the task in the letters of qstat(1), in their order.
func (t *Task) State() string {
	var b strings.Builder
	put := func(letter byte, on bool) {
		if on {
			b.WriteByte(letter)
		}
	}
	var suspended scheduler.Suspension
	if t.run != nil {
		suspended = t.run.Suspended
	}
	put('d', t.Deleted)
	put('E', t.Error != "")
	// A suspended queue always results in S, whatever the reason of the suspension (tested).
	put('S', suspended&(scheduler.BySubordinate|scheduler.ByQueue) != 0)
	put('T', suspended&scheduler.ByThreshold != 0)
	put('h', t.Holds != 0 || t.run == nil && len(t.Job.predecessors.jobs) > 0)
	put('R', t.Again())
	put('q', t.run == nil)
	put('r', t.Phase == Running && suspended == 0)
	put('s', suspended&scheduler.ByUser != 0)
	put('t', t.Phase == Transferring)
	put('w', t.run == nil && !t.Again())
	return b.String()
}

func (j *Job) find(number uint32) (int, bool) {
	return slices.BinarySearchFunc(j.tasks, number, func(t *Task, n uint32) int { return cmp.Compare(t.Number, n) })
}

// Task returns the task with a number, nil if the task has no state of its own.
func (j *Job) Task(number uint32) *Task { return j.task(number) }

// task returns the task with a number, nil if the task has no state of its own.
func (j *Job) task(number uint32) *Task {
	if i, ok := j.find(number); ok {
		return j.tasks[i]
	}
	return nil
}

// enrol creates the Task of a pending task.
func (c *Cell) enrol(j *Job, number uint32) *Task {
	i, ok := j.find(number)
	if ok {
		return j.tasks[i]
	}
	t := &Task{Job: j, Number: number, Holds: j.Holds}
	j.tasks = slices.Insert(j.tasks, i, t)
	j.Waiting = j.Waiting.Remove(int(number))
	c.touchJob(j, jobState)
	c.touchTask(t)
	if c.unsaved.on {
		c.keep(j.Owner(), &t.kept, taskRoom)
	}
	return t
}

// enrolAll creates the Tasks of several pending tasks.
func (c *Cell) enrolAll(j *Job, waiting rangelist.List) []*Task {
	all := make([]*Task, 0, waiting.Len())
	for n := range waiting.All() {
		t := &Task{Job: j, Number: uint32(n), Holds: j.Holds}
		all = append(all, t)
		c.touchTask(t)
		if c.unsaved.on {
			c.keep(j.Owner(), &t.kept, taskRoom)
		}
	}
	j.tasks = slices.SortedFunc(slices.Values(slices.Concat(j.tasks, all)), func(a, b *Task) int { return cmp.Compare(a.Number, b.Number) })
	j.Waiting = j.Waiting.Without(waiting)
	c.touchJob(j, jobState)
	return all
}

// drop removes a finished task.
func (c *Cell) drop(t *Task) {
	j := t.Job
	if i, ok := j.find(t.Number); ok {
		j.tasks = slices.Delete(j.tasks, i, i+1)
	}
	if len(t.unclean) > 0 { // other tasks may use its hosts
		c.exclude(j)
	}
	c.touchTask(t)
}

// gone reports whether all tasks have finished.
func (j *Job) gone() bool { return j.Waiting.IsEmpty() && len(j.tasks) == 0 }

// unfinished reports whether any task of a range has not finished.
func (j *Job) unfinished(first, last int) bool {
	if n := j.Waiting.AtMost(last); n >= first && n > 0 {
		return true
	}
	i, _ := j.find(uint32(max(first, 0)))
	return i < len(j.tasks) && int(j.tasks[i].Number) <= last
}

// selected returns the tasks that a command selects: all unfinished ones, or those in the ranges.
func (j *Job) selected(ranges []submit.Array) (waiting rangelist.List, tasks []*Task) {
	if ranges == nil {
		return j.Waiting, slices.Clone(j.tasks)
	}
	for _, t := range j.tasks {
		if slices.ContainsFunc(ranges, func(a submit.Array) bool { return contains(a, int(t.Number)) }) {
			tasks = append(tasks, t)
		}
	}
	var numbers []int
	for r := range j.Waiting.Ranges() {
		for _, a := range ranges {
			if r.First > a.Last || r.Last < a.First {
				continue
			}
			for n := max(a.First, r.First); n <= min(a.Last, r.Last); n++ {
				if contains(a, n) && j.Waiting.Contains(n) {
					numbers = append(numbers, n)
				}
			}
		}
	}
	return waiting.AddAll(numbers), tasks
}

func contains(a submit.Array, n int) bool {
	return a.First <= n && n <= a.Last && (n-a.First)%a.Step == 0
}
