package cell

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// target is a job, or some of its tasks, that a command is about.
type target struct {
	job    *Job
	ranges []submit.Array // nil for the whole job
}

// targets finds the jobs of a command: those of references that belong to the caller or,
// with users, to these ("*" for everybody's). Without references all jobs of the users are
// meant, and by the word "all", too. With everybody set, names mean the jobs of all users
// if the caller is an operator: so it is for commands that change jobs (tested with qalter);
// qdel is more careful. What is not there is denied, line by line.
func (c *Cell) targets(by Caller, everybody bool, jobs []submit.JobRange, users []string, a *Answer) []target {
	if len(jobs) == 0 && len(users) > 0 {
		jobs = []submit.JobRange{{Job: allJobs}}
	}
	everybody = everybody && len(users) == 0 && c.isOperator(by.User)
	owners := users
	if len(users) == 0 {
		owners = []string{by.User}
	}
	var list []target
	for _, r := range jobs {
		n := len(list)
		for _, owner := range owners {
			if everybody && r.Job != allJobs {
				owner = "*"
			}
			for _, j := range c.matchOwned(r.Job, owner, len(users) > 0) {
				list = append(list, target{j, r.Tasks})
			}
		}
		if n < len(list) {
			continue
		}
		who := strings.Join(owners, ", ")
		switch _, numbered := jobNumber(r.Job); {
		case r.Job == allJobs:
			a.deny("There are no jobs registered for user %s", who)
		case (numbered || everybody) && len(users) == 0:
			a.deny("denied: job \"%s\" does not exist", r.Job)
		default:
			a.deny("The job %s of user(s) %s does not exist", r.Job, who)
		}
	}
	return list
}

// allJobs is the word of qhold(1) and qrls(1) for all jobs.
const allJobs = "all"

// matchOwned are the jobs that a reference means. A number means the job whoever owns it,
// unless only the jobs of some users are meant.
func (c *Cell) matchOwned(reference, owner string, only bool) []*Job {
	if reference == allJobs {
		reference, only = "*", true
	}
	if owner == "*" {
		owner = ""
	}
	list := c.matchJobs(reference, owner)
	if only && owner != "" {
		list = slices.DeleteFunc(list, func(j *Job) bool { return j.Owner() != owner })
	}
	return list
}

// mayChange reports whether a user may change a job.
func (c *Cell) mayChange(by Caller, j *Job) bool {
	return by.User == j.Owner() || c.isOperator(by.User)
}

// DeleteRequest is what qdel(1) asks for.
type DeleteRequest struct {
	Jobs  []submit.JobRange
	Users []string // -u
	Force bool     // -f: without waiting for the execution host
}

// Delete is qdel(1). What runs is killed, and is gone when its end is reported; with Force
// at once.
func (c *Cell) Delete(now int64, by Caller, r DeleteRequest) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, t := range c.targets(by, false, r.Jobs, r.Users, a) {
		j := t.job
		switch {
		case c.jobs[j.ID()] != j:
			continue // named twice
		case !c.mayChange(by, j):
			a.deny("%s - you do not have the necessary privileges to delete the job \"%d\"", by.User, j.ID())
		case r.Force && !c.isManager(by.User) && !c.cluster.Global().QmasterParams.EnableForcedQdel:
			a.deny("%s - you do not have the necessary privileges to force the deletion of job %d", by.User, j.ID())
		default:
			c.deleteJob(now, by, t, r.Force, a)
		}
	}
	return c.done(a)
}

func (c *Cell) deleteJob(now int64, by Caller, t target, force bool, a *Answer) {
	j := t.job
	waiting, tasks := j.selected(t.ranges)
	if waiting.IsEmpty() && len(tasks) == 0 {
		a.deny("denied: %s does not exist", rangesLabel(j, t.ranges))
		return
	}
	whole := t.ranges == nil
	runs := slices.ContainsFunc(tasks, func(t *Task) bool { return t.run != nil })
	var killed []*Task
	if whole {
		killed = c.remove(now, j, nil)
	} else {
		for n := range waiting.All() {
			j.Waiting = j.Waiting.Remove(n)
		}
		c.waitingGone(j, waiting)
		killed = c.remove(now, j, append([]*Task{}, tasks...))
	}
	if force {
		for _, k := range killed {
			c.stop(k)
			j.drop(k)
			c.taskEnded(j, int(k.Number))
		}
		if c.jobs[j.ID()] == j && j.gone() {
			c.leave(now, j)
		}
	}
	label := rangesLabel(j, t.ranges)
	switch {
	case runs && force:
		a.say("%s forced the deletion of %s", by.User, label)
	case runs:
		a.say("%s has registered the %s for deletion", by.User, label)
	default:
		a.say("%s has deleted %s", by.User, label)
	}
}

// mayHold reports whether a user may put these holds on, or take them off: users their
// own, operators those of operators, managers all (qsub(1), -h).
func (c *Cell) mayHold(by Caller, j *Job, h submit.Holds) bool {
	switch {
	case h&submit.HoldSystem != 0:
		return c.isManager(by.User)
	case h&submit.HoldOperator != 0:
		return c.isOperator(by.User)
	}
	return c.mayChange(by, j)
}

// Hold is qhold(1), qrls(1) and qalter -h.
func (c *Cell) Hold(now int64, by Caller, jobs []submit.JobRange, users []string, change submit.HoldChange) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, t := range c.targets(by, true, jobs, users, a) {
		c.holdJob(by, t, change, a)
	}
	return c.done(a)
}

func (c *Cell) holdJob(by Caller, t target, change submit.HoldChange, a *Answer) {
	j := t.job
	wanted := change.Set | change.Clear
	if change.Clear == submit.AllHolds { // n: what the caller may not take off is not meant, unless it is there
		wanted = j.Holds
		for _, x := range j.tasks {
			wanted |= x.Holds
		}
	}
	if !c.mayHold(by, j, wanted) {
		a.deny("%s - you do not have the necessary privileges to change the holds %s of job %d", by.User, wanted, j.ID())
		return
	}
	waiting, tasks := j.selected(t.ranges)
	if waiting.IsEmpty() && len(tasks) == 0 {
		a.deny("denied: %s does not exist", rangesLabel(j, t.ranges))
		return
	}
	if t.ranges == nil || waiting.Len() == j.Waiting.Len() {
		j.Holds = j.Holds&^change.Clear | change.Set
	} else {
		for n := range waiting.All() {
			tasks = append(tasks, j.enrol(uint32(n)))
		}
	}
	for _, x := range tasks {
		x.Holds = x.Holds&^change.Clear | change.Set
	}
	c.refresh(j)
	a.say("modified hold of %s", rangesLabel(j, t.ranges))
}

// JobOperation is what qmod(1) does to jobs.
type JobOperation uint8

// The operations.
const (
	SuspendJob    JobOperation = iota // -sj
	UnsuspendJob                      // -usj
	ClearJobError                     // -cj
	RescheduleJob                     // -rj
)

// ModifyJobs is qmod(1) -sj, -usj, -cj and -rj. Force reschedules jobs that may not be
// run again, too.
func (c *Cell) ModifyJobs(now int64, by Caller, op JobOperation, jobs []submit.JobRange, force bool) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, t := range c.targets(by, true, jobs, nil, a) {
		j := t.job
		// What is run again has been run in vain, so that is for managers (qmod(1), -rj).
		if !c.mayChange(by, j) || op == RescheduleJob && !c.isManager(by.User) {
			a.deny("%s - you do not have the necessary privileges to modify the job \"%d\"", by.User, j.ID())
			continue
		}
		waiting, tasks := j.selected(t.ranges)
		if op == SuspendJob || op == UnsuspendJob || op == RescheduleJob {
			tasks = slices.DeleteFunc(tasks, func(x *Task) bool { return x.run == nil })
		}
		if len(tasks) == 0 {
			c.notApplicable(by, op, t, waiting.IsEmpty(), a)
			continue
		}
		for _, x := range tasks {
			c.modifyTask(by, op, x, force, a)
		}
	}
	return c.done(a)
}

// notApplicable says that there is no task that an operation could change.
func (c *Cell) notApplicable(by Caller, op JobOperation, t target, missing bool, a *Answer) {
	label := rangesLabel(t.job, t.ranges)
	switch {
	case op == ClearJobError:
		a.deny("%s - %s is not in error state", by.User, label)
	case missing:
		a.deny("denied: %s does not exist", label)
	default:
		a.deny("%s - %s is not running", by.User, label)
	}
}

func (c *Cell) modifyTask(by Caller, op JobOperation, t *Task, force bool, a *Answer) {
	label := t.label()
	switch op {
	case SuspendJob:
		if t.byUser {
			a.deny("%s - %s is already suspended", by.User, label)
			return
		}
		t.byUser = true
		c.resuspendOn(t)
		a.say("%s - suspended %s", by.User, label)
	case UnsuspendJob:
		if !t.byUser {
			a.deny("%s - %s is not suspended", by.User, label)
			return
		}
		t.byUser = false
		c.resuspendOn(t)
		a.say("%s - unsuspended %s", by.User, label)
	case ClearJobError:
		if t.Error == "" {
			a.deny("%s - %s is not in error state", by.User, label)
			return
		}
		t.Error = ""
		c.refresh(t.Job)
		a.say("%s - cleared error state of %s", by.User, label)
	case RescheduleJob:
		c.rescheduleByHand(by, t, force, a)
	}
}

// resuspendOn suspends or resumes a task, and lets slot-wise subordination follow.
func (c *Cell) resuspendOn(t *Task) {
	c.resuspend(t)
	if !t.orphan {
		for _, h := range c.hostsOf(t.run.Grants) {
			c.balanceSlots(h)
		}
	}
}

func (c *Cell) rescheduleByHand(by Caller, t *Task, force bool, a *Answer) {
	label := t.label()
	if !c.rerunnable(t) && (!force || !c.isManager(by.User)) {
		a.deny("%s - cannot reschedule %s: it may not be run again (qsub -r)", by.User, label)
		return
	}
	host := ""
	if !t.orphan {
		host = c.model.HostName(c.model.HostOf(master(t)))
	}
	c.reschedule(t, true)
	a.say("Pushed rescheduling of %s on host %s", label, host)
}

// QueueOperation is what qmod(1) does to queue instances.
type QueueOperation uint8

// The operations.
const (
	DisableQueue    QueueOperation = iota // -d
	EnableQueue                           // -e
	SuspendQueue                          // -s, -sq
	UnsuspendQueue                        // -us, -usq
	ClearQueueError                       // -c, -cq
	RescheduleQueue                       // -rq
)

// ModifyQueues is qmod(1) for queue instances, which are given as in -q of qsub(1). With
// Force what may not be run again is rescheduled, too.
func (c *Cell) ModifyQueues(now int64, by Caller, op QueueOperation, references []string, force bool) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, text := range references {
		ids := c.matchInstances(text)
		if len(ids) == 0 {
			a.deny("invalid queue %q", text)
		}
		for _, id := range ids {
			c.modifyQueue(by, op, id, force, a)
		}
	}
	return c.done(a)
}

// matchInstances are the queue instances that a wc_queue of sge_types(5) means.
func (c *Cell) matchInstances(text string) []scheduler.InstanceID {
	r, err := expression.CompileQueueReference(c.options.Hosts, text)
	if err != nil {
		return nil
	}
	var ids []scheduler.InstanceID
	for q := range c.model.Queues() {
		queue := scheduler.QueueID(q)
		for _, id := range c.model.InstancesOf(queue) {
			if r.Match(c.model.QueueName(queue), c.model.HostName(c.model.HostOf(id)), c.hostGroups) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// hostGroups are the host groups with a host, as references need them.
func (c *Cell) hostGroups(host string) []string {
	groups := c.cluster.HostGroups()
	return slices.DeleteFunc(groups.Names(), func(g string) bool { return !groups.Contains(g, host) })
}

// mayModify reports whether a user may change the state of a queue: its owners may
// (queue_conf(5), owner_list), but for running all its jobs again, which is for managers
// (qmod(1), -rq).
func (c *Cell) mayModify(by Caller, op QueueOperation, id scheduler.InstanceID) bool {
	if op == RescheduleQueue {
		return c.isManager(by.User)
	}
	return c.isOperator(by.User) || slices.Contains(c.model.Settings(id).OwnerList, by.User)
}

// queueChange is what an operation does to the status of an instance.
var queueChange = map[QueueOperation]struct {
	set, clear scheduler.Status
	word       string
}{
	DisableQueue:    {set: scheduler.DisabledByUser, word: "disabled"},
	EnableQueue:     {clear: scheduler.DisabledByUser, word: "enabled"},
	SuspendQueue:    {set: scheduler.SuspendedByUser, word: "suspended"},
	UnsuspendQueue:  {clear: scheduler.SuspendedByUser, word: "unsuspended"},
	ClearQueueError: {clear: scheduler.Failed, word: "no error"},
}

func (c *Cell) modifyQueue(by Caller, op QueueOperation, id scheduler.InstanceID, force bool, a *Answer) {
	name := c.model.InstanceName(id)
	if !c.mayModify(by, op, id) {
		a.deny("%s - you do not have the necessary privileges to change the state of queue %q", by.User, name)
		return
	}
	if op == RescheduleQueue {
		for _, t := range slices.Clone(c.places[id].tasks) {
			c.rescheduleByHand(by, t, force, a)
		}
		return
	}
	change := queueChange[op]
	before := c.state.Status(id)
	after := before&^change.clear | change.set
	if after == before {
		a.deny("Queue instance %q is already in the specified state: %s", name, change.word)
		return
	}
	if op == ClearQueueError {
		c.places[id].errors = nil
	}
	c.setStatus(id, after)
	a.say("%s@%s changed state of %q (%s)", by.User, by.Host, name, change.word)
}
