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

// Failure is whose fault it was that a task could not be run (sge_status(5)).
type Failure uint8

// The kinds of failures.
const (
	NoFailure      Failure = iota
	JobFailure             // the job's own: it is put into the error state
	QueueFailure           // the queue instance is put into the error state, the task waits again
	HostFailure            // the same for all instances of the host
	NobodysFailure         // the task waits again: its host says so
	Refused                // the same, and it has not been begun: its host has not taken it
	QueueFinished          // the queue instance is put into the error state, the task has finished
)

// End is how a task ended.
type End struct {
	ExitStatus int
	Failure    Failure
	Reason     string // of a failure
	// Record is the reason with the stamp of the record that it is from, as qstat -j shows it; empty
	// where it is Reason.
	Record string
	// Once says that the task leaves whatever has become of it, without being run again or
	// waiting in error state: somebody sits before it, or did.
	Once bool
	// Unbegun says that the run does not count, as the job itself was not started, or the failure is
	// held against its queue or host: the next start is the first one (RESTARTED, qsub(1)).
	Unbegun bool
	// Requeued says of NobodysFailure that the job has asked for it, by exit status 99 of
	// itself or of one of its procedures.
	Requeued bool
	Used     tickets.Amounts
}

// The exit statuses of a job that mean something (qsub(1)).
const (
	exitReschedule = 99  // run it again
	exitError      = 100 // put it into the error state
)

// runningTask finds a task that runs.
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

// TaskEnded reports that a task has ended, or could not be started. attempt is that of
// the StartTask. A report about an earlier attempt says that nothing of it is left on its
// hosts.
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
	if e.Failure != Refused || t.Deleted { // what was not begun has not ended
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

// shortReason returns the beginning of a reason: a part of it, such as a path, may be the user's.
func shortReason(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// blame puts the queue instances into the error state whose fault it was.
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
		c.places[id].errors = append(c.places[id].errors, fmt.Sprintf("queue %s marked QERROR as result of job %d's failure at host %s", c.model.Settings(id).Queue, t.Job.ID(), host))
		c.setStatus(id, c.state.Status(id)|scheduler.Failed)
	}
}

// stop takes back what a task has.
func (c *Cell) stop(t *Task) {
	if t.run == nil {
		return
	}
	run := t.run
	c.touchTask(t)
	t.Job.sched.Active--
	hosts := c.hostsOf(run.Grants)
	before := c.usedSlots(hosts)
	c.vacate(t)
	// It was booked, so it can be taken back.
	_ = c.state.End(run)
	t.clear()
	c.leftBehind(run.Grants)
	c.subordinate(hosts, before)
}

func (t *Task) clear() {
	t.run, t.Phase, t.Started = nil, Pending, 0
	t.byUser, t.byThreshold, t.slotwise, t.resumed = false, false, false, false
}

// reschedule has a running task wait again at once. Its hosts are not used for the job
// until nothing of it is left there.
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

// toTheEnd has a job that was rescheduled wait behind those that wait: it counts as
// submitted now (sge_conf(5), OLD_RESCHEDULE_BEHAVIOR). Jobs whose queue or host has failed,
// and those that migrate, keep their place (tested).
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

// cleaned forgets hosts that are clean again.
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

// rerunnable reports whether a task may be started again: as -r says, or else the queue
// (queue_conf(5), rerun), and with a checkpointing environment.
func (c *Cell) rerunnable(t *Task) bool {
	switch r := t.Job.asked; {
	case r.Checkpoint != "":
		return true
	case r.Rerun != job.Default:
		return r.Rerun == job.Yes
	}
	return t.run != nil && c.model.Settings(master(t)).Rerun
}

// remove takes tasks of a job away for good: those of the ranges, or all. Tasks that run
// are killed. It reports which.
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

// waitingGone lets go the tasks of other arrays that have waited for tasks that are not
// there any more.
func (c *Cell) waitingGone(j *Job, gone rangelist.List) {
	if gone.IsEmpty() {
		return
	}
	for _, id := range c.taskSuccessors[j.ID()] {
		if next := c.jobs[id]; next != nil {
			c.refresh(next)
		}
	}
}

// HostReport returns what a host says of itself: all its load values, by the names of their
// complexes. The first one, and the first after the host was lost, makes its queue instances
// usable (queue_conf(5), initial_state). "global" stands for the cluster.
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
		case was: // it was up all the time
		case initial == qconf.InitialEnabled:
			status &^= scheduler.DisabledByUser
		case initial == qconf.InitialDisabled:
			status |= scheduler.DisabledByUser
		}
		c.setStatus(i, status)
	}
	return c.done(&Answer{}), nil
}

// HostClean reports that a host that was lost has nothing running that the cell does not
// know of.
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

// HostLost reports that nothing has been heard of a host for max_unheard (sge_conf(5)).
// Its instances are unknown. After reschedule_unknown its tasks that may be run again wait
// again.
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

// giveUpAt sets when a lost host is given up.
func (c *Cell) giveUpAt(host string, at int64) {
	c.lost[host] = at
	c.timers.add(timer{at: at, kind: hostGivenUp, name: host})
	c.touchHost(host)
}

// giveUpHost reschedules the tasks of a host that has not come back.
func (c *Cell) giveUpHost(host string) {
	if at, lost := c.lost[host]; !lost || at > c.now {
		return // it has come back since, and may have been lost again
	}
	delete(c.lost, host)
	c.touchHost(host)
	id, ok := c.model.Host(host)
	if !ok {
		return
	}
	for _, i := range c.model.InstancesOn(id) {
		for _, t := range slices.Clone(c.places[i].tasks) {
			if t.run != nil && !t.Deleted && c.rerunnable(t) {
				c.reschedule(t, true)
			}
		}
	}
}
