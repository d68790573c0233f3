package cell

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// Job is a job that has not left the cell. Callers must not change it.
type Job struct {
	Group   string
	Host    string // where it was submitted
	Origin  *Origin
	Project string // empty for none
	Start   int64  // not to be started before (qsub(1), -a); 0 for none
	// Holds keep the tasks from starting that have none of their own.
	Holds submit.Holds
	// Waiting are the tasks that have never been started, without those that have a Task.
	// A job that is not an array job has the task 1.
	Waiting rangelist.List
	// Version counts the alterations, holds among them.
	Version int
	// Problem is why the job cannot be scheduled since the configuration has changed.
	Problem string

	asked *submit.Request // all of what was asked for, or what others have asked for, too; then
	own   *own            // is what this job has instead

	sched scheduler.Job
	tasks []*Task // by their numbers

	predecessors     []uint32 // jobs that must leave first, ascending
	taskPredecessors []uint32 // jobs whose tasks must end first (-hold_jid_ad), ascending

	ran    bool    // a task of it has ended
	ending *Ending // see LastEnding

	unsaved, saved jobParts // what has changed since Changes was called, and what it has returned
	kept           jobSizes // what is kept of the job
	beside         *beside  // its script, where that is not in asked
	countedBeside  bool     // for its owner
	encoded        []byte   // its request as it is going to be kept, nil where that is not known yet
}

// ID is the number of the job.
func (j *Job) ID() uint32 { return j.sched.ID }

// Name is the name of the job (qsub(1), -N).
func (j *Job) Name() string {
	if j.own != nil {
		return j.own.name
	}
	return j.asked.Name
}

// Owner is the user whose job it is.
func (j *Job) Owner() string { return j.sched.Owner }

// Submitted is when the job was submitted.
func (j *Job) Submitted() int64 { return j.sched.Submitted }

// Deadline is that of -dl, 0 for none.
func (j *Job) Deadline() int64 { return j.sched.Deadline }

// Priority is the POSIX priority (qsub(1), -p).
func (j *Job) Priority() int { return j.sched.Priority }

// OverrideTickets are those of qalter -ot.
func (j *Job) OverrideTickets() float64 { return j.sched.Override }

// Shares are those of -js.
func (j *Job) Shares() float64 { return j.sched.Shares }

// IsArray reports whether it is an array job.
func (j *Job) IsArray() bool { return j.asked.Array != nil }

// Scheduled is the job as the scheduler knows it.
func (j *Job) Scheduled() *scheduler.Job { return &j.sched }

// Tasks are the tasks that run, have run, or differ from the waiting ones, by their
// numbers.
func (j *Job) Tasks() []*Task { return j.tasks }

// Predecessors are the jobs that must leave first (-hold_jid).
func (j *Job) Predecessors() []uint32 { return j.predecessors }

// TaskPredecessors are the jobs whose tasks must end first (-hold_jid_ad).
func (j *Job) TaskPredecessors() []uint32 { return j.taskPredecessors }

// Phase is how far a task has come.
type Phase uint8

// The phases.
const (
	Pending      Phase = iota
	Transferring       // was told to an execution host, which has not confirmed it
	Running
)

// Task is a task of a job that has something of its own: it runs, has run, is held
// or in error by itself. Callers must not change it.
type Task struct {
	Job    *Job
	Number uint32 // 1 for a job that is not an array job
	Phase  Phase
	Holds  submit.Holds
	// Error is why the task is in error state, empty if it is not.
	Error string
	// Message is why an earlier start failed that was not the fault of the job, and what
	// qstat -j shows as error reason although the task waits or runs (tested).
	Message string
	// Deleted is set when the execution side was told to end the task for good.
	Deleted bool
	// Restarts is how often it was started again, or is to be, which tells its starts apart;
	// Refusals how many of the starts before its host has not taken, or have led to an error
	// state that was cleared.
	Restarts, Refusals int

	Started int64 // since when it runs; 0 for a task that does not
	Used    tickets.Amounts
	Live    Live
	// Priority and NormalizedTickets are those that it was started with.
	Priority, NormalizedTickets float64
	// Tickets are those that it was started with. What is shown of a parallel task whose
	// environment controls its slaves stays so.
	Tickets tickets.Tickets

	run                           *scheduler.Running
	refused                       *refusal  // nil for a task whose last start was not refused
	comeback                      backoff   // since it has ended to be run again
	unclean                       []unclean // hosts where an earlier start has not been cleaned up
	byUser, slotwise, byThreshold bool
	resumed                       bool            // with one of its queue instances, whatever the others are
	booked                        tickets.Amounts // of Used, in the ledger
	dirty                         bool
	unsaved                       bool // it has changed since Changes was called
	saved                         savedTask
	kept                          int64 // bytes
}

// Live is what was reported of a running task and nothing but shown: it is not kept.
type Live struct {
	Vmem, MaxVmem int64   // bytes, now and at most
	IOWait        float64 // seconds
	Refused       int64   // how often the task was refused a process or thread
}

// unclean is a host where a start of a task may still have something running.
type unclean struct {
	attempt int
	host    string
}

// Running is the task as the scheduler knows it, nil for one that waits.
func (t *Task) Running() *scheduler.Running { return t.run }

// Suspended reports whether anything suspends the task.
func (t *Task) Suspended() bool { return t.run != nil && t.run.Suspended != 0 }

// Again reports whether the task has been begun before, and so runs again (RESTARTED,
// qsub(1)). What a host has not taken was never begun, and an error that was cleared is
// forgotten.
func (t *Task) Again() bool { return t.Restarts > t.Refusals }

// State is the state of the task in the letters of qstat(1), in their order.
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
	// A suspended queue is an S whoever suspended it (tested).
	put('S', suspended&(scheduler.BySubordinate|scheduler.ByQueue) != 0)
	put('T', suspended&scheduler.ByThreshold != 0)
	put('h', t.Holds != 0 || t.run == nil && len(t.Job.predecessors) > 0)
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

// Task returns the task with a number, nil if there is none that has something of its own.
func (j *Job) Task(number uint32) *Task { return j.task(number) }

// task returns the task with a number, nil if it has nothing of its own.
func (j *Job) task(number uint32) *Task {
	if i, ok := j.find(number); ok {
		return j.tasks[i]
	}
	return nil
}

// enrol gives a waiting task something of its own.
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

// drop takes a task away that has ended.
func (c *Cell) drop(t *Task) {
	j := t.Job
	if i, ok := j.find(t.Number); ok {
		j.tasks = slices.Delete(j.tasks, i, i+1)
	}
	if len(t.unclean) > 0 { // its hosts are no concern of the others
		c.exclude(j)
	}
	c.touchTask(t)
}

// gone reports whether all tasks have ended.
func (j *Job) gone() bool { return j.Waiting.IsEmpty() && len(j.tasks) == 0 }

// unfinished reports whether a task of a range has not ended.
func (j *Job) unfinished(first, last int) bool {
	if n := j.Waiting.AtMost(last); n >= first && n > 0 {
		return true
	}
	i, _ := j.find(uint32(max(first, 0)))
	return i < len(j.tasks) && int(j.tasks[i].Number) <= last
}

// selected are the tasks of a job that a command means: all that have not ended, or
// those of the ranges.
func (j *Job) selected(ranges []submit.Array) (waiting rangelist.List, tasks []*Task) {
	if ranges == nil {
		return j.Waiting, slices.Clone(j.tasks)
	}
	for _, t := range j.tasks {
		if slices.ContainsFunc(ranges, func(a submit.Array) bool { return contains(a, int(t.Number)) }) {
			tasks = append(tasks, t)
		}
	}
	for r := range j.Waiting.Ranges() {
		for _, a := range ranges {
			if r.First > a.Last || r.Last < a.First {
				continue
			}
			for n := max(a.First, r.First); n <= min(a.Last, r.Last); n++ {
				if contains(a, n) && j.Waiting.Contains(n) {
					waiting = waiting.Add(n)
				}
			}
		}
	}
	return waiting, tasks
}

func contains(a submit.Array, n int) bool {
	return a.First <= n && n <= a.Last && (n-a.First)%a.Step == 0
}

// label is how the original's commands call a task, or a job.
func (t *Task) label() string {
	if t.Job.IsArray() {
		return taskLabel(t.Job, t.Number)
	}
	return jobLabel(t.Job)
}
