package cell

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell/requests"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/value"
	"github.com/execd-project/execd/submit"
)

// Submit executes qsub(1): it accepts a job, or refuses it with a *DeniedError. A refused job uses
// up its number, as in the original. The cell keeps r, which the caller must not change afterwards;
// jobs may share one.
//
// With -now y the next scheduling run decides about the job.
func (c *Cell) Submit(now int64, by Caller, r *submit.Request) (*Answer, error) {
	return c.SubmitAs(now, by, r, 0)
}

// SubmitAs submits a job as Submit does, with a number from Examine or TakeNumber. If another job has that number by
// now, the job gets a new one.
func (c *Cell) SubmitAs(now int64, by Caller, r *submit.Request, number uint32) (*Answer, error) {
	c.tick(now)
	j, a, err := c.prepare(now, by, r, c.numbered(number))
	if err != nil || j == nil {
		return a, err
	}
	c.add(now, j)
	if r.Immediate {
		a.say(Event{Kind: SchedulingAwaited})
		c.immediate = append(c.immediate, j)
	} else {
		a.say(submitted(j))
	}
	return c.done(a), nil
}

// Examine performs the checks that Submit performs before it accepts a job, for the request before
// its verification (sge_conf(5), jsv_url). The answer contains the number for SubmitAs, or 0 if
// there is nothing to submit.
func (c *Cell) Examine(now int64, by Caller, r *submit.Request) (*Answer, error) {
	c.tick(now)
	_, a, err := c.prepare(now, by, r, c.TakeNumber())
	if err != nil {
		return nil, err
	}
	return c.done(a), nil
}

// TakeNumber reserves and returns the number of a job that will be submitted.
func (c *Cell) TakeNumber() uint32 {
	c.lastJob++
	c.touchCounters()
	return c.lastJob
}

// numbered returns the number from TakeNumber if it is still free, otherwise a new one.
func (c *Cell) numbered(number uint32) uint32 {
	if number == 0 || number > c.lastJob || c.jobs[number] != nil {
		return c.TakeNumber()
	}
	return number
}

// prepare creates a job and checks it. The job is nil if it must not be submitted.
func (c *Cell) prepare(now int64, by Caller, r *submit.Request, number uint32) (*Job, *Answer, error) {
	j := &Job{asked: r, Group: by.Group, Host: by.Host, Origin: by.Origin, Submission: by.Submission}
	j.sched.ID, j.sched.Owner, j.sched.Submitted = number, by.User, now
	c.changed(j)
	if err := c.describe(now, by, j); err != nil {
		d, ok := errors.AsType[*DeniedError](err)
		if below, is := errors.AsType[*DeniedError](c.admitIDs(by)); ok && is {
			d.Report = append(d.Report, below.Event) // the original continues after this report (tested)
		}
		return nil, nil, err
	}
	if err := c.admit(now, by, j); err != nil {
		return nil, nil, err
	}
	a := &Answer{ID: j.ID()}
	passed, err := c.validate(now, j, a)
	if err != nil {
		return nil, nil, err
	}
	if !passed {
		a.ID = 0
		return nil, c.done(a), nil
	}
	return j, a, nil
}

// submitted returns the event of an accepted job.
func submitted(j *Job) Event {
	return Event{Kind: JobSubmitted, Job: j.ID(), Name: j.Name(), Array: j.asked.Array}
}

// describe sets the fields of a job from its request, and checks them.
func (c *Cell) describe(now int64, by Caller, j *Job) error {
	r, err := c.peOfSlots(j.asked)
	if err != nil {
		return err
	}
	j.asked = r
	if err := cmp.Or(c.checkHosts(r.Resources), c.checkFiles(r)); err != nil {
		return err
	}
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
		return denied(Event{Kind: PriorityTooHigh, User: by.User})
	}
	if len(r.MasterQueues) > 0 && r.PE == nil {
		return denied(Event{Kind: MasterQueueOfSerial})
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
	j.asked = c.inSeconds(j.asked)
	if err := c.categorize(j); err != nil {
		return err
	}
	if err := c.checkReservation(by, j); err != nil {
		return err
	}
	if err := c.checkTimeInReservation(j); err != nil {
		return err
	}
	if strings.Contains(r.CheckpointWhen, "n") && (r.Checkpoint != "" || r.CheckpointWhen != "n") {
		return denied(Event{Kind: NeverCheckpointed})
	}
	if r.Checkpoint == "" && (r.CheckpointInterval != 0 || strings.Trim(r.CheckpointWhen, "n") != "") {
		return denied(Event{Kind: NoCheckpointing})
	}
	if err := c.checkCheckpoint(r.Checkpoint); err != nil {
		return err
	}
	return c.resolveDependencies(j, r.PrecedingJobs, r.PrecedingTasks)
}

// peOfSlots returns the request with -l slots=n replaced by a request for the parallel environment
// that the site configures (SLOTS_PE in qmaster_params). Without this setting the scheduler refuses
// the request, as the original does.
func (c *Cell) peOfSlots(r *submit.Request) (*submit.Request, error) {
	changed, err := r.PEOfSlots(c.cluster.Global().QmasterParams.SlotsPE, func(name string) bool {
		x, ok := c.cluster.Complexes().Find(name)
		return ok && x.Name == "slots"
	})
	if err != nil {
		return nil, denied(Event{Kind: SlotsRefused, Err: err})
	}
	return changed, nil
}

// inSeconds returns a request with times in seconds, which are displayed and accounted whatever
// their notation was (tested). It returns r itself if nothing changes.
func (c *Cell) inSeconds(r *submit.Request) *submit.Request {
	changed := false
	for i, l := range r.Resources {
		if strings.Trim(l.Value, "0123456789") == "" {
			continue
		}
		x, ok := c.cluster.Complexes().Find(l.Name)
		if !ok || x.Type != qconf.ComplexTime {
			continue
		}
		v, err := value.Parse(value.Time, l.Value)
		if err != nil || v.IsInfinite() {
			continue
		}
		if !changed {
			clone := *r
			clone.Resources = slices.Clone(r.Resources)
			r, changed = &clone, true
		}
		r.Resources[i].Value = itoa(int64(v.Number()))
	}
	return r
}

func (c *Cell) mayHaveDeadline(by Caller) error {
	if set, err := c.cluster.UserSet(qconf.DeadlineUsers); err != nil || !set.Contains(by.User, by.Group) {
		return denied(Event{Kind: NotDeadlineUser, User: by.User})
	}
	return nil
}

func (c *Cell) describeTasks(j *Job) (err error) {
	array := submit.Array{First: 1, Last: 1, Step: 1}
	if j.asked.TaskLimit > 0 && j.asked.Array == nil {
		return denied(Event{Kind: TaskLimitOfSingle})
	}
	if a := j.asked.Array; a != nil {
		array, j.sched.Array = *a, true
		if limit := c.cluster.Global().MaxAJTasks; limit > 0 && a.Len() > limit {
			return denied(Event{Kind: TooManyTasks, Limit: int64(limit)})
		}
	}
	j.Waiting, err = rangelist.Of(array.First, array.Last, array.Step)
	return err
}

// checkHosts refuses requests for hosts that do not exist. The original asks its name service.
func (c *Cell) checkHosts(requests []submit.ResourceRequest) error {
	for _, r := range requests {
		if x, ok := c.cluster.Complexes().Find(r.Name); ok && x.Name == "hostname" && r.Value != "" && !c.MayBeHost(r.Value) {
			return denied(Event{Kind: UnknownHost, Name: r.Value})
		}
	}
	return nil
}

// checkFiles refuses a path list with an entry for a host that does not exist, or with two entries
// for the same host.
func (c *Cell) checkFiles(r *submit.Request) error {
	for _, list := range [][]submit.HostPath{r.Shell, r.Output, r.Error, r.Input} {
		for i, p := range list {
			if p.Host != "" && !c.isHost(p.Host) {
				return denied(Event{Kind: UnknownHost, Name: p.Host})
			}
			if slices.ContainsFunc(list[:i], func(q submit.HostPath) bool { return q.Host == "" && p.Host == "" || qconf.SameHost(q.Host, p.Host) }) {
				return denied(Event{Kind: HostRepeated})
			}
		}
	}
	return nil
}

// MayBeHost reports whether the value of a request is an expression, or the name of a host of the
// cell.
func (c *Cell) MayBeHost(text string) bool {
	return strings.ContainsAny(text, `*?[]|&!()`) || c.isHost(text)
}

func (c *Cell) isHost(name string) bool {
	for i := range c.model.Hosts() {
		if qconf.SameHost(c.model.HostName(scheduler.HostID(i)), name) {
			return true
		}
	}
	return false
}

// describeProject determines the project of a job: the value of -P, or otherwise the user's default
// project (user(5)).
func (c *Cell) describeProject(by Caller, j *Job) error {
	conf := c.cluster.Global()
	if j.Project = j.asked.Project; j.Project == "" {
		j.Project = c.defaultProject(by.User)
	}
	if j.Project == "" {
		if conf.EnforceProject {
			return denied(Event{Kind: NoProject})
		}
		return nil
	}
	project, err := c.cluster.Project(j.Project)
	if err != nil {
		return denied(Event{Kind: NoSuchProject, Name: j.Project, Err: err})
	}
	if slices.Contains(conf.XProjects, j.Project) || len(conf.Projects) > 0 && !slices.Contains(conf.Projects, j.Project) {
		return denied(Event{Kind: ProjectExcluded, Name: j.Project})
	}
	if !c.hasAccess(by, project.ACL, project.XACL) {
		return denied(Event{Kind: NoProjectAccess, User: by.User, Name: j.Project})
	}
	return nil
}

// MayUseProject reports whether a user may have jobs in a project (project(5), acl and xacl). It
// checks only access list entries for the user's name, not for groups.
func (c *Cell) MayUseProject(user, project string) bool {
	p, err := c.cluster.Project(project)
	return err == nil && c.hasAccess(Caller{User: user}, p.ACL, p.XACL)
}

// hasAccess applies access lists (access_list(5)). Lists that do not exist are empty.
func (c *Cell) hasAccess(by Caller, acl, xacl []string) bool {
	in := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			set, err := c.cluster.UserSet(name)
			return err == nil && set.Contains(by.User, by.Group)
		})
	}
	return !in(xacl) && (len(acl) == 0 || in(acl))
}

// admitIDs refuses users and groups with IDs below the limit (sge_conf(5), min_uid and min_gid).
func (c *Cell) admitIDs(by Caller) error {
	conf, o := c.cluster.Global(), by.Origin
	switch {
	case o == nil:
		return nil
	case o.UID < conf.MinUID:
		return denied(Event{Kind: UserIDTooLow, Number: int64(o.UID), Limit: int64(conf.MinUID)})
	case o.GID < conf.MinGID:
		return denied(Event{Kind: GroupIDTooLow, Number: int64(o.GID), Limit: int64(conf.MinGID)})
	}
	return nil
}

// admit applies the cluster's limits for users and jobs (sge_conf(5)).
func (c *Cell) admit(now int64, by Caller, j *Job) error {
	if err := c.admitIDs(by); err != nil {
		return err
	}
	conf := c.cluster.Global()
	if conf.EnforceUser == qconf.EnforceUserTrue && !c.policy.knowsUser(j.Owner()) {
		return denied(Event{Kind: NoSuchUser, User: by.User})
	}
	if !c.hasAccess(by, conf.UserLists, conf.XUserLists) {
		return denied(Event{Kind: NoAccess, User: by.User, Host: by.Host})
	}
	if n := len(c.jobs); conf.MaxJobs > 0 && n >= conf.MaxJobs {
		return denied(Event{Kind: TooManyJobs, Limit: int64(conf.MaxJobs)})
	}
	if n := c.perUser[j.Owner()]; conf.MaxUJobs > 0 && n >= conf.MaxUJobs {
		return denied(Event{Kind: TooManyJobsOfUser, Limit: int64(conf.MaxUJobs), Used: int64(n)})
	}
	if err := c.admitRate(now, by.User); err != nil {
		return err
	}
	return c.admitSize(j)
}

// requests returns the requests that the scheduler compares with the resources.
func (j *Job) requests() *scheduler.Requests {
	return requests.Of(j.Owner(), j.Group, j.Project, j.asked)
}

// categorize finds the category of a job's requests.
func (c *Cell) categorize(j *Job) error {
	category, err := c.model.Category(j.requests())
	if err != nil {
		return denied(Event{Kind: RequestRefused, Err: err})
	}
	if there := c.model.LacksElements(category); there != "" {
		return denied(Event{Kind: NoSuchElements, Name: there})
	}
	j.sched.Category = category
	return nil
}

// checkCheckpoint refuses the name of a checkpointing environment that does not exist; "" means
// none.
func (c *Cell) checkCheckpoint(name string) error {
	if name == "" {
		return nil
	}
	if _, err := c.cluster.Checkpoint(name); err != nil {
		return denied(Event{Kind: NoSuchCheckpoint, Name: name, Err: err})
	}
	return nil
}

// add adds a job that has passed all checks.
func (c *Cell) add(now int64, j *Job) {
	c.countSubmission(now, j.Owner())
	c.separateScript(j)
	c.share(j)
	c.jobs[j.ID()] = j
	c.enqueue(j.ID())
	c.perUser[j.Owner()]++
	c.name(j)
	c.enrolUser(now, j.Owner())
	c.entitle(j)
	c.dependencies.add(j.ID(), j.predecessors)
	c.reservations.enter(j)
	c.touchJob(j, allParts)
	c.keepNew(j)
	if j.Start > now {
		c.timers.add(timer{at: j.Start, kind: startTime, id: j.ID()})
	}
	c.refresh(j)
}

// enqueue inserts the number of a job in ascending order. A job with a slow verifier arrives after
// later numbers.
func (c *Cell) enqueue(id uint32) {
	if n := len(c.order); n == 0 || c.order[n-1] < id {
		c.order = append(c.order, id)
		return
	}
	c.order = sortedInsert(c.order, id)
}

// startable returns the tasks of a job that may start now.
func (c *Cell) startable(j *Job) rangelist.List {
	if j.Problem != "" || len(j.predecessors.jobs) > 0 || j.Start > c.now || !c.reservations.usable(j) {
		return rangelist.List{}
	}
	var list rangelist.List
	if j.Holds == 0 {
		list = j.Waiting
	}
	var again []int
	for _, t := range j.tasks {
		if t.run == nil && t.Holds == 0 && t.Error == "" && !t.backsOff(c.now) {
			again = append(again, int(t.Number))
		}
	}
	return c.unblocked(j, list.AddAll(again))
}

// refresh tells the scheduler which tasks of a job may start.
func (c *Cell) refresh(j *Job) {
	j.sched.Tasks = c.startable(j)
	if j.sched.Tasks.IsEmpty() {
		c.state.Dequeue(&j.sched)
	} else {
		c.letSchedule(j)
	}
}

// letSchedule passes a job to the scheduler. A job of a damaged record may be invalid: then it
// stays pending, and its Problem says why.
func (c *Cell) letSchedule(j *Job) {
	if err := c.state.Enqueue(&j.sched); err != nil {
		j.Problem = err.Error()
		c.touchJob(j, jobState)
	}
}

// changed records a change of a job after which it ranks behind others with the same tickets.
func (c *Cell) changed(j *Job) {
	c.changes++
	c.state.SetChanged(&j.sched, c.changes)
	c.touchCounters()
	if c.jobs[j.ID()] == j { // it may still be refused
		c.touchJob(j, jobState)
	}
}

// leave removes a job when all its tasks have finished.
func (c *Cell) leave(now int64, j *Job) {
	c.keepFinished(now, j)
	c.state.Dequeue(&j.sched)
	delete(c.jobs, j.ID())
	c.touchJob(j, allParts)
	c.unname(j)
	if c.perUser[j.Owner()]--; c.perUser[j.Owner()] == 0 {
		delete(c.perUser, j.Owner())
	}
	c.userLeft(now, j.Owner())
	c.release(j)
	c.leaveReservation(j)
}

// ownName is the name of a job together with its owner.
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

// matchPredecessors returns the jobs that a reference of -hold_jid matches, sorted by number. A
// number matches the job of any owner; a name, or a wildcard expression of sge_types(5), matches
// only jobs of owner.
func (c *Cell) matchPredecessors(reference, owner string) []*Job {
	if id, ok := jobNumber(reference); ok {
		if j := c.jobs[id]; j != nil {
			return []*Job{j}
		}
		return nil
	}
	if expression.Plain(reference) {
		return c.jobsOf(c.idsNamed(reference, owner))
	}
	e, err := expression.Compile(expression.String, reference)
	if err != nil {
		return nil
	}
	return c.jobsOf(c.idsMatching(e.ForMany().Match, func(user string) bool { return user == owner }))
}

// idsMatching returns the numbers of the jobs with a matching name and owner, ascending.
func (c *Cell) idsMatching(name, owner func(string) bool) []uint32 {
	var ids []uint32
	for _, id := range c.ids() {
		if j := c.jobs[id]; owner(j.Owner()) && name(j.Name()) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *Cell) jobsOf(ids []uint32) []*Job {
	var list []*Job
	for _, id := range ids {
		list = append(list, c.jobs[id])
	}
	return list
}

// idsNamed returns the numbers of the jobs with a name, ascending: of an owner, or of all owners
// with "".
func (c *Cell) idsNamed(name, owner string) []uint32 {
	if owner != "" {
		return c.named[ownName{owner, name}]
	}
	var ids []uint32
	for owner := range c.perUser {
		ids = append(ids, c.named[ownName{owner, name}]...)
	}
	slices.Sort(ids)
	return ids
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
	case i == 0: // most jobs leave in the order of their numbers
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
