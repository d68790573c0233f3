package cell

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// Submit is qsub(1): it takes a job in, or refuses it with a *DeniedError. Numbers of
// refused jobs are used up, as in the original. The cell keeps r, which must not be changed
// any more; jobs may share one.
//
// With -now y what becomes of the job is decided in the next scheduling run.
func (c *Cell) Submit(now int64, by Caller, r *submit.Request) (*Answer, error) {
	c.tick(now)
	c.lastJob++
	j := &Job{Request: r, Group: by.Group}
	j.sched.ID, j.sched.Owner, j.sched.Submitted = c.lastJob, by.User, now
	if err := c.describe(now, by, j); err != nil {
		return nil, err
	}
	if err := c.admit(by, j); err != nil {
		return nil, err
	}
	a := &Answer{ID: j.ID()}
	if submitted, err := c.validate(now, j, a); err != nil || !submitted {
		if err != nil {
			return nil, err
		}
		a.ID = 0
		return c.done(a), nil
	}
	c.add(now, j)
	if r.Immediate {
		a.say("Waiting for immediate job to be scheduled.")
		c.immediate = append(c.immediate, j)
	} else {
		a.say("%s has been submitted", yourJob(j))
	}
	return c.done(a), nil
}

func yourJob(j *Job) string {
	if a := j.Request.Array; a != nil {
		return "Your job-array " + itoa(j.ID()) + "." + a.String() + " (\"" + j.Name() + "\")"
	}
	return "Your job " + itoa(j.ID()) + " (\"" + j.Name() + "\")"
}

// describe fills in what the request says, and checks it.
func (c *Cell) describe(now int64, by Caller, j *Job) error {
	r := j.Request
	local := time.Unix(now, 0).In(c.zone)
	if !r.Start.IsZero() {
		j.Start = r.Start.Time(local).Unix()
	}
	if !r.Deadline.IsZero() {
		if err := c.mayHaveDeadline(by); err != nil {
			return err
		}
		j.sched.Deadline = r.Deadline.Time(local).Unix()
	}
	if r.Priority > 0 && !c.isOperator(by.User) {
		return denied("job rejected: positive submission priority requires operator privileges")
	}
	if r.Hold {
		j.Holds = submit.HoldUser
	}
	j.sched.Priority, j.sched.Shares, j.sched.Reserve = r.Priority, float64(r.JobShare), r.Reserve && !r.Immediate
	j.sched.TaskLimit = r.TaskLimit
	if err := c.describeTasks(j); err != nil {
		return err
	}
	if err := c.describeProject(by, j); err != nil {
		return err
	}
	if err := c.categorize(j); err != nil {
		return err
	}
	if err := c.checkReservation(by, j); err != nil {
		return err
	}
	if r.Checkpoint != "" {
		if _, err := c.cluster.Checkpoint(r.Checkpoint); err != nil {
			return &DeniedError{Text: "job rejected: the requested checkpointing environment \"" + r.Checkpoint + "\" does not exist", Err: err}
		}
	}
	return c.resolveDependencies(j, r.PrecedingJobs, r.PrecedingTasks)
}

func (c *Cell) mayHaveDeadline(by Caller) error {
	if set, err := c.cluster.UserSet(qconf.DeadlineUsers); err != nil || !set.Contains(by.User, by.Group) {
		return denied("job rejected: the user %q is not a deadline initiation user", by.User)
	}
	return nil
}

func (c *Cell) describeTasks(j *Job) (err error) {
	array := submit.Array{First: 1, Last: 1, Step: 1}
	if a := j.Request.Array; a != nil {
		array, j.sched.Array = *a, true
		if limit := c.cluster.Global().MaxAJTasks; limit > 0 && a.Len() > limit {
			return denied("job rejected: you tried to submit a job with more than %d tasks", limit)
		}
	}
	j.Waiting, err = rangelist.Of(array.First, array.Last, array.Step)
	return err
}

// describeProject finds the project of a job: that of -P, or else the default of the
// user (user(5)).
func (c *Cell) describeProject(by Caller, j *Job) error {
	conf := c.cluster.Global()
	if j.Project = j.Request.Project; j.Project == "" {
		j.Project = c.defaultProject(by.User)
	}
	if j.Project == "" {
		if conf.EnforceProject {
			return denied("job rejected: no project assigned to job")
		}
		return nil
	}
	project, err := c.cluster.Project(j.Project)
	if err != nil {
		return &DeniedError{Text: "job rejected: the requested project \"" + j.Project + "\" does not exist", Err: err}
	}
	if slices.Contains(conf.XProjects, j.Project) || len(conf.Projects) > 0 && !slices.Contains(conf.Projects, j.Project) {
		return denied("job rejected: project %q is not allowed to submit jobs", j.Project)
	}
	if !c.hasAccess(by, project.ACL, project.XACL) {
		return denied("job rejected: no access to project %q for user %q", j.Project, by.User)
	}
	return nil
}

// hasAccess applies access lists (access_list(5)). Lists that do not exist contain nobody.
func (c *Cell) hasAccess(by Caller, acl, xacl []string) bool {
	in := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			set, err := c.cluster.UserSet(name)
			return err == nil && set.Contains(by.User, by.Group)
		})
	}
	return !in(xacl) && (len(acl) == 0 || in(acl))
}

// admit applies the limits of the cluster on users and jobs (sge_conf(5)).
func (c *Cell) admit(by Caller, j *Job) error {
	conf := c.cluster.Global()
	if conf.EnforceUser == qconf.EnforceUserTrue && !c.knowsUser(j.Owner()) {
		return denied("job rejected: the user %q does not exist", by.User)
	}
	if !c.hasAccess(by, conf.UserLists, conf.XUserLists) {
		return denied("job rejected: %s@%s is not allowed to submit jobs", by.User, by.Host)
	}
	if n := len(c.jobs); conf.MaxJobs > 0 && n >= conf.MaxJobs {
		return denied("job rejected: only %d jobs are allowed per cluster", conf.MaxJobs)
	}
	if n := c.perUser[j.Owner()]; conf.MaxUJobs > 0 && n >= conf.MaxUJobs {
		return denied("job rejected: only %d jobs are allowed per user (current job count: %d)", conf.MaxUJobs, n)
	}
	return nil
}

// requests are what the scheduler matches.
func (j *Job) requests() *scheduler.Requests {
	r := j.Request
	q := &scheduler.Requests{
		User: j.Owner(), Group: j.Group, Project: j.Project, Checkpoint: r.Checkpoint,
		Immediate: r.Immediate, Reservation: uint32(r.Reservation), MasterQueues: strings.Join(r.MasterQueues, ","),
	}
	for _, l := range r.Resources {
		to := &q.Hard
		if l.Soft {
			to = &q.Soft
		}
		*to = append(*to, qconf.Setting{Name: l.Name, Value: l.Value})
	}
	q.Queues, q.SoftQueues = joinQueues(r.Queues)
	if r.PE != nil {
		q.PE, q.Slots = r.PE.Name, slotList(r.PE.Ranges)
	}
	if r.Binding != nil {
		q.Binding = bindingOf(r.Binding)
	}
	return q
}

func joinQueues(list []submit.QueueRequest) (hard, soft string) {
	for _, q := range list {
		to := &hard
		if q.Soft {
			to = &soft
		}
		if *to != "" {
			*to += ","
		}
		*to += q.Reference
	}
	return hard, soft
}

// slotList is the numbers of slots of -pe, none if 0 is among them.
func slotList(ranges []submit.SlotRange) rangelist.List {
	var all rangelist.List
	for _, r := range ranges {
		l, err := rangelist.Of(r.Min, r.Max, 1)
		if err != nil {
			return rangelist.List{}
		}
		all = all.Union(l)
	}
	return all
}

// categorize finds the category of a job's requests.
func (c *Cell) categorize(j *Job) error {
	category, err := c.model.Category(j.requests())
	if err != nil {
		return requestDenied(err)
	}
	j.sched.Category = category
	return nil
}

func requestDenied(err error) error {
	if refused, ok := errors.AsType[*scheduler.RequestError](err); ok {
		return &DeniedError{Text: refused.Text, Err: err}
	}
	return &DeniedError{Text: err.Error(), Err: err}
}

// add takes in a job that has passed all checks.
func (c *Cell) add(now int64, j *Job) {
	c.jobs[j.ID()] = j
	c.order = append(c.order, j.ID())
	c.perUser[j.Owner()]++
	c.name(j)
	c.enrolUser(now, j.Owner())
	c.entitle(j)
	c.depend(j)
	c.enterReservation(j)
	if j.Start > now {
		c.timers.add(timer{at: j.Start, kind: startTime, id: j.ID()})
	}
	c.refresh(j)
}

// startable are the tasks of a job that may start now.
func (c *Cell) startable(j *Job) rangelist.List {
	if j.Problem != "" || len(j.predecessors) > 0 || j.Start > c.now || !c.reservationUsable(j) {
		return rangelist.List{}
	}
	var list rangelist.List
	if j.Holds == 0 {
		list = j.Waiting
	}
	for _, t := range j.tasks {
		if t.run == nil && t.Holds == 0 && t.Error == "" {
			list = list.Add(int(t.Number))
		}
	}
	return c.unblocked(j, list)
}

// refresh tells the scheduler which tasks of a job may start.
func (c *Cell) refresh(j *Job) {
	j.sched.Tasks = c.startable(j)
	if j.sched.Tasks.IsEmpty() {
		c.state.Dequeue(&j.sched)
	} else {
		c.state.Enqueue(&j.sched)
	}
}

// leave forgets a job all of whose tasks have ended.
func (c *Cell) leave(now int64, j *Job) {
	c.state.Dequeue(&j.sched)
	delete(c.jobs, j.ID())
	c.unname(j)
	if c.perUser[j.Owner()]--; c.perUser[j.Owner()] == 0 {
		delete(c.perUser, j.Owner())
	}
	c.userLeft(now, j.Owner())
	c.release(j)
	c.leaveReservation(j)
}

// ownName is the name of a job, and whose it is.
type ownName struct{ owner, name string }

func (c *Cell) name(j *Job) {
	key := ownName{j.Owner(), j.Name()}
	c.named[key] = sortedInsert(c.named[key], j.ID())
}

func (c *Cell) unname(j *Job) {
	key := ownName{j.Owner(), j.Name()}
	if c.named[key] = sortedRemove(c.named[key], j.ID()); len(c.named[key]) == 0 {
		delete(c.named, key)
	}
}

// matchJobs are the jobs that a wc_job of sge_types(5) means: a number, a name, or an
// expression of names. Names mean only the jobs of the owner, "" for those of everybody.
func (c *Cell) matchJobs(reference, owner string) []*Job {
	if id, ok := jobNumber(reference); ok {
		if j := c.jobs[id]; j != nil {
			return []*Job{j}
		}
		return nil
	}
	var list []*Job
	if owner != "" && !strings.ContainsAny(reference, "!&|()*?[]") {
		for _, id := range c.named[ownName{owner, reference}] {
			list = append(list, c.jobs[id])
		}
		return list
	}
	e, err := expression.Compile(expression.String, reference)
	if err != nil {
		return nil
	}
	for _, id := range c.ids() {
		if j := c.jobs[id]; (owner == "" || j.Owner() == owner) && e.Match(j.Name()) {
			list = append(list, j)
		}
	}
	return list
}

func jobNumber(s string) (uint32, bool) {
	n := uint64(0)
	for _, r := range s {
		if r < '0' || r > '9' || n > 1<<32 {
			return 0, false
		}
		n = n*10 + uint64(r-'0')
	}
	return uint32(n), s != "" && n < 1<<32
}

func sortedInsert(list []uint32, id uint32) []uint32 {
	i, found := slices.BinarySearchFunc(list, id, cmp.Compare[uint32])
	if found {
		return list
	}
	return slices.Insert(list, i, id)
}

func sortedRemove(list []uint32, id uint32) []uint32 {
	i, found := slices.BinarySearch(list, id)
	switch {
	case !found:
		return list
	case i == 0: // most leave in their order
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
