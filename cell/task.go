package cell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Failure says which object caused a task's failure (sge_status(5)).
type Failure uint8

// The kinds of failures.
const (
	NoFailure      Failure = iota
	JobFailure             // the job enters the error state
	QueueFailure           // the queue instance enters the error state, the task is pending again
	HostFailure            // the same for all instances of the host
	NobodysFailure         // the task is pending again; the host reports why
	Refused                // the same, but the host has refused the start, so the task did not begin
	QueueFinished          // the queue instance enters the error state, the task has finished
)

// End is the end of a task.
type End struct {
	ExitStatus int
	Failure    Failure
	Reason     string // of a failure
	// Record is the reason with the stamp of its record, as qstat -j shows it; empty if it equals
	// Reason.
	Record string
	// Once means that the task leaves after any end: it neither runs again nor stays in error
	// state. It is set for interactive jobs.
	Once bool
	// Unbegun means that the run does not count, because the job itself was not started or the
	// failure is attributed to its queue or host: the next start is the first one (RESTARTED,
	// qsub(1)).
	Unbegun bool
	// Requeued means for NobodysFailure that the job requested it, by exit status 99 of itself or
	// of one of its procedures.
	Requeued bool
	Used     tickets.Amounts
}

// The exit statuses of a job with a special meaning (qsub(1)).
const (
	exitReschedule = 99  // run it again
	exitError      = 100 // put it into the error state
)

// runningTask finds a running task.
func (c *Cell) runningTask(id, number uint32) (*Task, error) {
	j := c.jobs[id]
	if j == nil {
		return nil, fmt.Errorf("job %d is unknown", id)
	}
	t := j.task(number)
	if t == nil || t.run == nil {
		return nil, fmt.Errorf("task %d.%d does not run", id, number)
	}
	return t, nil
}

// TaskStarted reports that an execution host has started a task.
func (c *Cell) TaskStarted(now int64, id, task uint32, attempt int) error {
	c.tick(now)
	t, err := c.runningTask(id, task)
	if err != nil {
		return err
	}
	if t.Restarts != attempt {
		return fmt.Errorf("start %d of task %d.%d is outdated, it was started %d times since", attempt, id, task, t.Restarts-attempt)
	}
	t.Phase, t.refused = Running, nil
	c.touchTask(t)
	return nil
}

// TaskEnded reports that a task has ended, or could not be started. attempt is the Attempt of the
// StartTask. A report about an earlier attempt means that nothing of it is left on its hosts.
func (c *Cell) TaskEnded(now int64, id, task uint32, attempt int, e End) (*Answer, error) {
	c.tick(now)
	j := c.jobs[id]
	if j == nil {
		return nil, fmt.Errorf("job %d is unknown", id)
	}
	t := j.task(task)
	if t == nil {
		return nil, fmt.Errorf("task %d.%d does not run", id, task)
	}
	c.touchTask(t)
	if t.cleaned(func(u unclean) bool { return u.attempt == attempt }) {
		c.exclude(j)
	}
	if t.run == nil || t.Restarts != attempt {
		return c.done(&Answer{}), nil
	}
	e.Used[tickets.FinishedJobs] = 1
	e.Reason, e.Record = shortReason(e.Reason), shortReason(e.Record)
	places, since := slices.Clone(t.run.Grants), t.Started
	params := c.cluster.Global().QmasterParams
	again := e.Failure == QueueFailure || e.Failure == HostFailure || e.Failure == NobodysFailure || e.Failure == Refused || e.Failure == NoFailure && e.ExitStatus == exitReschedule && !params.ForbidReschedule
	failed := e.Failure == JobFailure || e.Failure == NoFailure && e.ExitStatus == exitError && !params.ForbidAppError
	if e.Once {
		again, failed = false, false
	}
	if again || failed {
		e.Used[tickets.FinishedJobs] = 0
	}
	c.reportUsage(t, e.Used)
	if e.Failure != Refused || t.Deleted { // a start that was refused has no end
		c.noteEnd(t, e)
	}
	c.stop(t)
	switch {
	case t.Deleted || !again && !failed:
		c.drop(t)
		c.taskEnded(j, int(task))
		if j.gone() {
			c.leave(now, j)
		}
	case failed:
		t.Error = cmp.Or(e.Record, e.Reason, fmt.Sprintf("job exited with status %d", e.ExitStatus))
	default:
		t.Restarts++
		if e.Failure == Refused || e.Unbegun {
			t.Refusals++
		}
		switch {
		case e.Failure == Refused:
			c.refuse(t, c.model.HostName(c.model.HostOf(places[0].Instance)), e.Reason)
		case e.Unbegun:
			t.Message = cmp.Or(e.Record, e.Reason)
		}
		switch e.Failure {
		case NoFailure:
			c.comeBack(t, since, true)
			c.toTheEnd(j)
		case NobodysFailure:
			c.comeBack(t, since, e.Requeued)
			if e.Requeued {
				c.toTheEnd(j)
			}
		}
	}
	c.blame(t, places, e)
	if c.jobs[id] == j {
		c.refresh(j)
	}
	return c.done(&Answer{}), nil
}

// shortReason returns the beginning of a reason. A part of it, such as a path, may be chosen by the
// user.
func shortReason(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// blame puts the queue instances that caused a failure into the error state.
func (c *Cell) blame(t *Task, grants []scheduler.Grant, e End) {
	var ids []scheduler.InstanceID
	switch e.Failure {
	case QueueFailure, QueueFinished:
		ids = []scheduler.InstanceID{grants[0].Instance}
	case HostFailure:
		ids = c.model.InstancesOn(c.model.HostOf(grants[0].Instance))
	}
	host := c.model.HostName(c.model.HostOf(grants[0].Instance))
	for _, id := range ids {
		c.touchInstance(id)
		c.instances[id].errors = append(c.instances[id].errors, fmt.Sprintf("queue %s marked QERROR as result of job %d's failure at host %s", c.model.Settings(id).Queue, t.Job.ID(), host))
		c.setStatus(id, c.state.Status(id)|scheduler.Failed)
	}
}

// stop releases the resources of a task.
func (c *Cell) stop(t *Task) {
	if t.run == nil {
		return
	}
	run := t.run
	c.touchTask(t)
	t.Job.sched.Active--
	hosts := c.hostsOf(run.Grants)
	before := c.subordination.usedSlots(hosts)
	c.vacate(t)
	// A booked task can always be released.
	_ = c.state.End(run)
	t.clear()
	c.leftBehind(run.Grants)
	c.subordinate(hosts, before)
}

func (t *Task) clear() {
	t.run, t.Phase, t.Started = nil, Pending, 0
	t.byUser, t.byThreshold, t.slotwise, t.resumed = false, false, false, false
}

// reschedule makes a running task pending again at once. The job does not use its hosts until
// nothing of the task is left there.
func (c *Cell) reschedule(t *Task, kill bool) {
	for _, g := range t.run.Grants {
		u := unclean{attempt: t.Restarts, host: c.model.HostName(c.model.HostOf(g.Instance))}
		if !slices.Contains(t.unclean, u) {
			t.unclean = append(t.unclean, u)
		}
	}
	if kill {
		c.act(RescheduleTask, t)
	}
	c.stop(t)
	t.Restarts++
	c.toTheEnd(t.Job)
	c.exclude(t.Job)
	c.refresh(t.Job)
}

// toTheEnd moves a rescheduled job behind all pending jobs, as if it had been submitted now
// (sge_conf(5), OLD_RESCHEDULE_BEHAVIOR). Jobs whose queue or host failed, and migrating jobs, keep
// their place (tested).
func (c *Cell) toTheEnd(j *Job) {
	switch p := &c.cluster.Global().QmasterParams; {
	case c.jobs[j.ID()] != j:
		return
	case j.IsArray() && p.OldRescheduleBehaviorArrayJob, !j.IsArray() && p.OldRescheduleBehavior:
		return
	}
	c.state.Dequeue(&j.sched) // refresh puts it back
	j.sched.Submitted = c.now
	c.touchJob(j, jobState)
}

// cleaned removes hosts that are clean again.
func (t *Task) cleaned(is func(unclean) bool) bool {
	n := len(t.unclean)
	t.unclean = slices.DeleteFunc(t.unclean, is)
	return len(t.unclean) != n
}

// exclude keeps a job from the hosts where earlier starts have not been cleaned up.
func (c *Cell) exclude(j *Job) {
	j.sched.Excluded = nil
	for _, t := range j.tasks {
		for _, u := range t.unclean {
			if h, ok := c.model.Host(u.host); ok && !slices.Contains(j.sched.Excluded, h) {
				j.sched.Excluded = append(j.sched.Excluded, h)
			}
		}
	}
}

// rerunnable reports whether a task may be started again: by -r, or else by its queue
// (queue_conf(5), rerun), and always with a checkpointing environment.
func (c *Cell) rerunnable(t *Task) bool {
	switch r := t.Job.asked; {
	case r.Checkpoint != "":
		return true
	case r.Rerun != job.Default:
		return r.Rerun == job.Yes
	}
	return t.run != nil && c.model.Settings(master(t)).Rerun
}

// remove removes the given tasks of a job, or all. It kills running tasks and returns them.
func (c *Cell) remove(now int64, j *Job, tasks []*Task) (killed []*Task) {
	all := tasks == nil
	if all {
		tasks = slices.Clone(j.tasks)
		waiting := j.Waiting
		j.Waiting = rangelist.List{}
		c.touchJob(j, jobState)
		c.waitingGone(j, waiting)
	}
	for _, t := range tasks {
		if t.run != nil {
			if !t.Deleted {
				t.Deleted = true
				c.touchTask(t)
				c.act(KillTask, t)
			}
			killed = append(killed, t)
			continue
		}
		c.drop(t)
		c.taskEnded(j, int(t.Number))
	}
	if j.gone() {
		c.leave(now, j)
	} else {
		c.refresh(j)
	}
	return killed
}

// waitingGone frees tasks of other arrays that have waited for removed tasks.
func (c *Cell) waitingGone(j *Job, gone rangelist.List) {
	if gone.IsEmpty() {
		return
	}
	for _, id := range c.dependencies.tasks[j.ID()] {
		if next := c.jobs[id]; next != nil {
			c.refresh(next)
		}
	}
}

// HostReport sets all load values of a host, by the names of their complexes. The first report, and
// the first one after the host was lost, makes the host's queue instances usable (queue_conf(5),
// initial_state). "global" stands for the cluster.
func (c *Cell) HostReport(now int64, host string, values map[string]string) (*Answer, error) {
	c.tick(now)
	id, ok := c.model.Host(host)
	if !ok {
		return nil, fmt.Errorf("load report of host %q: there is no such host", host)
	}
	name := c.model.HostName(id)
	if err := c.state.SetLoad(name, values); err != nil {
		return nil, err
	}
	_, known := c.loads[name]
	c.loads[name] = values
	if id == scheduler.GlobalHost || known {
		return c.done(&Answer{}), nil
	}
	was := c.wasUp[name]
	delete(c.wasUp, name)
	delete(c.lost, name)
	c.touchHost(name)
	for _, i := range c.model.InstancesOn(id) {
		status := c.state.Status(i) &^ scheduler.Unknown
		switch initial := c.model.Settings(i).InitialState; {
		case was: // the host was up before
		case initial == qconf.InitialEnabled:
			status &^= scheduler.DisabledByUser
		case initial == qconf.InitialDisabled:
			status |= scheduler.DisabledByUser
		}
		c.setStatus(i, status)
	}
	return c.done(&Answer{}), nil
}

// HostClean reports that a previously lost host runs nothing that the cell does not know.
func (c *Cell) HostClean(now int64, host string) {
	c.tick(now)
	for _, j := range c.Jobs() {
		changed := false
		for _, t := range j.tasks {
			if t.cleaned(func(u unclean) bool { return qconf.SameHost(u.host, host) }) {
				changed = true
				c.touchTask(t)
			}
		}
		if changed {
			c.exclude(j)
		}
	}
}

// HostLost reports that a host has sent no report for max_unheard (sge_conf(5)). Its instances
// become unknown. After reschedule_unknown its rerunnable tasks are pending again.
func (c *Cell) HostLost(now int64, host string) (*Answer, error) {
	c.tick(now)
	id, ok := c.model.Host(host)
	if !ok || id == scheduler.GlobalHost {
		return nil, fmt.Errorf("host %q is lost: there is no such host", host)
	}
	name := c.model.HostName(id)
	delete(c.loads, name)
	delete(c.wasUp, name)
	c.touchHost(name)
	if err := c.state.SetLoad(name, nil); err != nil {
		return nil, err
	}
	for _, i := range c.model.InstancesOn(id) {
		c.setStatus(i, c.state.Status(i)|scheduler.Unknown)
	}
	d := c.cluster.Config(name).RescheduleUnknown
	if _, lost := c.lost[name]; !lost && d > 0 && d != qconf.Forever {
		c.giveUpAt(name, now+int64(d.Seconds()))
	}
	return c.done(&Answer{}), nil
}

// giveUpAt sets the time at which a lost host is given up.
func (c *Cell) giveUpAt(host string, at int64) {
	c.lost[host] = at
	c.timers.add(timer{at: at, kind: hostGivenUp, name: host})
	c.touchHost(host)
}

// giveUpHost reschedules the tasks of a host that did not return.
func (c *Cell) giveUpHost(host string) {
	if at, lost := c.lost[host]; !lost || at > c.now {
		return // it has returned since, and may have been lost again
	}
	delete(c.lost, host)
	c.touchHost(host)
	id, ok := c.model.Host(host)
	if !ok {
		return
	}
	for _, i := range c.model.InstancesOn(id) {
		for _, t := range slices.Clone(c.instances[i].tasks) {
			if t.run != nil && !t.Deleted && c.rerunnable(t) {
				c.reschedule(t, true)
			}
		}
	}
}
