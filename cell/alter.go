package cell

import (
	"cmp"
	"slices"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// Alter executes qalter(1). Each job is either altered completely or, with a reason, not at all.
func (c *Cell) Alter(now int64, by Caller, r *submit.Alteration) *Answer {
	c.tick(now)
	a := &Answer{}
	if !c.mayAlter(r, a) {
		return c.done(a)
	}
	fields := requestFields(r.Request)
	more := int64(len(encode(&requestRecord{Request: &fields})))
	for _, t := range c.targets(by, forChange, r.Jobs, r.Users, a) {
		if t.absent != nil {
			a.deny(*t.absent)
			continue
		}
		if !c.mayChange(by, t.job) {
			a.refuse(notOwner(by, t.job))
			continue
		}
		c.alterJob(now, by, t, r, more, a)
	}
	return c.done(a)
}

// alterJob changes a copy of the job's request, checks it like the request of a new job, and then
// replaces the old request. more is the size by which the request may grow.
func (c *Cell) alterJob(now int64, by Caller, t target, r *submit.Alteration, more int64, a *Answer) {
	j := t.job
	said := &Answer{}
	next := &Job{Group: j.Group, Holds: j.Holds, predecessors: j.predecessors}
	next.sched.ID, next.sched.Owner = j.ID(), j.Owner()
	next.sched.Override = j.sched.Override
	next.Start, next.sched.Deadline, next.sched.Priority = j.Start, j.sched.Deadline, j.sched.Priority
	request := *j.Request()
	next.asked = &request
	local := time.Unix(now, 0).In(c.zone)
	for _, option := range alterOrder(r) {
		if err := c.alterOption(by, next, r, option, local, said); err != nil {
			a.refuse(err)
			return
		}
	}
	if request.Project != j.asked.Project && j.runs() {
		a.Events = append(a.Events, said.Events...)
		a.deny(Event{Kind: ProjectOfRunningJob, Job: j.ID()})
		return
	}
	submission := j.Submission
	if by.Confirms != nil {
		var err error
		if submission, err = by.Confirms(j, &request); err != nil {
			a.refuse(err)
			return
		}
	}
	verdict := &Answer{}
	if r.Has("-w") && !c.validateAltered(now, j, r.Request.Validation, verdict) {
		a.Events = append(a.Events, verdict.Events...)
		return
	}
	var err error
	if slices.ContainsFunc(r.Options, isRequest) {
		err = c.describeAltered(by, j, next)
	} else {
		next.sched.Category, next.Project, next.Problem = j.sched.Category, j.Project, j.Problem
	}
	if err == nil && r.Has("-l") {
		err = cmp.Or(c.checkHosts(r.Request.Resources), c.checkConsumables(j, next))
	}
	err = cmp.Or(err, c.checkFiles(&r.Request))
	if err == nil {
		err = c.admitAltered(j, next, more)
	}
	if err != nil {
		a.refuse(err)
		return
	}
	version := j.Version
	c.replace(now, j, next)
	j.Submission = submission
	c.changed(j)
	if r.Has("-h") {
		c.holdJob(by, t, r.Holds, said)
	}
	if slices.ContainsFunc(r.Options, isVersioned) {
		j.Version = version + 1
	}
	a.Events = append(append(a.Events, said.Events...), verdict.Events...)
}

// alterOrder returns the options in the order in which the answer reports the changes.
func alterOrder(r *submit.Alteration) []string {
	context := false
	options := slices.DeleteFunc(slices.Clone(r.Options), func(o string) bool {
		switch o {
		case "-ac", "-dc", "-sc": // together they are a single change
			again := context
			context = true
			return again
		}
		return o == "-h" || o == "-soft" || o == "-hard" || o == "-w"
	})
	// Priorities and shares come first; of two options with the same letter, the lower-case one.
	rank := func(o string) string {
		if i := slices.Index([]string{"-p", "-ot", "-js", "-ar"}, o); i >= 0 {
			return "!" + itoa(i) // sorts before the "-" of the other options
		}
		if o == "-M" {
			return "-m1"
		}
		return o
	}
	slices.SortFunc(options, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return options
}

// isVersioned reports whether an option counts as an alteration of the job. An option that only
// changes the job's rank does not (tested).
func isVersioned(option string) bool {
	return option != "-p" && option != "-js" && option != "-w" && option != "-h"
}

// isRequest reports whether an option restricts the places where a job may run.
func isRequest(option string) bool {
	switch option {
	case "-l", "-q", "-masterq", "-pe", "-P", "-ckpt", "-ar", "-binding":
		return true
	}
	return false
}

// describeAltered checks the request of an altered job.
func (c *Cell) describeAltered(by Caller, j, next *Job) error {
	owner := Caller{User: j.Owner(), Group: j.Group, Host: by.Host}
	if err := c.describeProject(owner, next); err != nil {
		return err
	}
	if err := c.categorize(next); err != nil {
		return err
	}
	return c.checkReservation(owner, next)
}

// checkConsumables refuses changes to the consumables of a running job (qalter(1), -l).
func (c *Cell) checkConsumables(j, next *Job) error {
	if !j.runs() {
		return nil
	}
	before, after := c.consumed(j), c.consumed(next)
	find := func(list []qconf.Setting, name string) int {
		return slices.IndexFunc(list, func(s qconf.Setting) bool { return s.Name == name })
	}
	for _, s := range after {
		switch i := find(before, s.Name); {
		case i < 0:
			return denied(Event{Kind: ConsumableAdded, Name: s.Name})
		case before[i].Value != s.Value:
			return denied(Event{Kind: ConsumableChanged, Name: s.Name})
		}
	}
	for _, s := range before {
		if find(after, s.Name) < 0 {
			return denied(Event{Kind: ConsumableRemoved, Name: s.Name})
		}
	}
	return nil
}

// consumed returns the consumables that a job requests, under their full names.
func (c *Cell) consumed(j *Job) (list []qconf.Setting) {
	for _, r := range j.asked.Resources {
		if x, ok := c.cluster.Complexes().Find(r.Name); ok && x.Consumable != qconf.ConsumableNo && !r.Soft {
			list = append(list, qconf.Setting{Name: x.Name, Value: r.Value})
		}
	}
	return list
}

func (j *Job) runs() bool {
	return slices.ContainsFunc(j.tasks, func(t *Task) bool { return t.run != nil })
}

// freeze gives each running task of a job a copy of the requests with which it started, because the
// scheduler has booked those. An alteration applies when the task starts again.
func (c *Cell) freeze(j *Job) {
	var frozen *scheduler.Job
	for _, t := range j.tasks {
		if t.run == nil || t.run.Job != &j.sched {
			continue
		}
		if frozen == nil {
			frozen = new(scheduler.Job)
			*frozen = j.sched
		}
		t.run.Job = frozen
		c.touchTask(t)
	}
}

// replace gives a job the values of an altered copy.
func (c *Cell) replace(now int64, j, next *Job) {
	c.state.Dequeue(&j.sched)
	if j.sched.Category != next.sched.Category {
		c.freeze(j)
	}
	c.touchJob(j, jobState|jobRequest)
	for _, t := range c.unbooked { // their usage counts for the project before the change
		if t.Job == j {
			c.touchTask(t)
		}
	}
	c.dependencies.remove(j.ID(), j.predecessors)
	// A finished reservation is removed when its last job leaves it.
	moves := j.asked.Reservation != next.asked.Reservation
	if moves {
		c.leaveReservation(j)
	}
	c.unname(j)
	j.encoded = nil
	j.asked, j.own, j.Project, j.Start, j.Problem = next.asked, nil, next.Project, next.Start, next.Problem
	c.share(j)
	j.predecessors = next.predecessors
	j.sched.Category, j.sched.Deadline, j.sched.Priority = next.sched.Category, next.sched.Deadline, next.sched.Priority
	j.sched.Override = next.sched.Override
	j.sched.Shares, j.sched.Reserve = float64(j.asked.JobShare), j.asked.Reserve && !j.asked.Immediate
	j.sched.TaskLimit = j.asked.TaskLimit
	c.name(j)
	c.entitle(j)
	c.dependencies.add(j.ID(), j.predecessors)
	if moves {
		c.reservations.enter(j)
	}
	if j.Start > now {
		c.timers.add(timer{at: j.Start, kind: startTime, id: j.ID()})
	}
	c.refresh(j)
}

// alterOption applies one option to the job's request.
func (c *Cell) alterOption(by Caller, j *Job, r *submit.Alteration, option string, now time.Time, a *Answer) error {
	switch option {
	case "-p", "-ot", "-js":
		return c.alterRank(by, j, r, option, a)
	case "-a", "-dl":
		return c.alterTime(by, j, &r.Request, option, now, a)
	case "-hold_jid", "-hold_jid_ad":
		return c.alterDependencies(j, &r.Request, option, a)
	}
	if isRequest(option) {
		return c.alterRequest(by, j, &r.Request, option, a)
	}
	from, to := &r.Request, j.asked
	switch option {
	case "-N":
		if from.Name == "" {
			return nil
		}
		to.Name = from.Name
	case "-R":
		to.Reserve = from.Reserve
	case "-tc":
		if to.Array == nil {
			return denied(Event{Kind: NotAnArray})
		}
		to.TaskLimit = from.TaskLimit
	case "-ac", "-dc", "-sc":
		to.Context = r.ChangeContext(to.Context)
	default:
		alterRun(option, from, to)
	}
	a.say(altered(j, option))
	return nil
}

// alterRank applies an option that changes the job's rank in the dispatch order.
func (c *Cell) alterRank(by Caller, j *Job, r *submit.Alteration, option string, a *Answer) error {
	from, to := &r.Request, j.asked
	set := Event{Kind: ValueSet, User: by.User, Host: by.Host, Job: j.ID(), Option: option}
	switch option {
	case "-p":
		if from.Priority > j.sched.Priority && !c.isOperator(by.User) {
			return denied(Event{Kind: OptionNeedsOperator, User: by.User, Option: option})
		}
		to.Priority, j.sched.Priority = from.Priority, from.Priority
		set.Number = int64(from.Priority)
	case "-ot":
		if !c.isOperator(by.User) {
			return denied(Event{Kind: OptionNeedsOperator, User: by.User, Option: option})
		}
		j.sched.Override = float64(r.Override)
		set.Number = int64(r.Override)
	case "-js":
		to.JobShare = from.JobShare
		set.Number = int64(from.JobShare)
	}
	a.say(set)
	return nil
}

// alterTime applies an option that changes the start time or the deadline of a job.
func (c *Cell) alterTime(by Caller, j *Job, from *submit.Request, option string, now time.Time, a *Answer) error {
	if option == "-a" {
		j.asked.Start, j.Start = from.Start, from.Start.Time(now).Unix()
		a.say(altered(j, option))
		return nil
	}
	if err := c.mayHaveDeadline(by); err != nil {
		return err
	}
	j.asked.Deadline, j.sched.Deadline = from.Deadline, from.Deadline.Time(now).Unix()
	a.say(altered(j, option))
	return nil
}

// alterRequest applies an option that restricts where a job may run, see isRequest.
func (c *Cell) alterRequest(by Caller, j *Job, from *submit.Request, option string, a *Answer) error {
	to := j.asked
	modified := func(soft bool) {
		e := altered(j, option)
		e.Soft = soft
		a.say(e)
	}
	switch option {
	case "-l":
		asked, err := c.peOfSlots(from)
		if err != nil {
			return err
		}
		alterResources(c.inSeconds(asked), to, modified)
		if asked.PE != from.PE {
			return alterSlots(asked.PE, j, a)
		}
	case "-q":
		alterQueues(from, to, modified)
	case "-masterq":
		to.MasterQueues = from.MasterQueues
		a.say(altered(j, option))
	case "-pe":
		if e := c.peExists(from.PE.Name); !e {
			return denied(Event{Kind: NoSuchPE, Name: from.PE.Name})
		}
		alterPE(from.PE, j, a)
	case "-P":
		if to.Project != from.Project {
			a.say(altered(j, option))
		}
		to.Project = from.Project
	case "-ar":
		to.Reservation = from.Reservation
		a.say(Event{Kind: ValueSet, User: by.User, Host: by.Host, Job: j.ID(), Option: option, Number: int64(from.Reservation)})
	case "-ckpt":
		if _, err := c.cluster.Checkpoint(from.Checkpoint); err != nil && from.Checkpoint != "" {
			return denied(Event{Kind: NoSuchCheckpoint, Name: from.Checkpoint, Subject: AlteredJob, Err: err})
		}
		fallthrough
	default:
		alterRun(option, from, to)
		a.say(altered(j, option))
	}
	return nil
}

// alterSlots changes the number of slots of a job that has no parallel environment, or that of
// SLOTS_PE.
func alterSlots(pe *submit.ParallelRequest, j *Job, a *Answer) error {
	if has := j.asked.PE; has != nil && has.Name != pe.Name {
		return denied(Event{Kind: OtherPE, Names: []string{pe.Name, has.Name}})
	}
	alterPE(pe, j, a)
	return nil
}

// alterPE changes the parallel environment and the slots of a job.
func alterPE(pe *submit.ParallelRequest, j *Job, a *Answer) {
	j.asked.PE = pe
	a.say(altered(j, "-pe"))
	a.say(Event{Kind: SlotRangeAltered, Job: j.ID()})
}

// altered returns the event of a job of which an option was altered.
func altered(j *Job, option string) Event {
	return Event{Kind: JobAltered, Job: j.ID(), Option: option}
}

func (c *Cell) alterDependencies(j *Job, from *submit.Request, option string, a *Answer) error {
	jobs, tasks := j.asked.PrecedingJobs, j.asked.PrecedingTasks
	next := j.predecessors
	say := func(references []string) {
		blocking, exited := c.existing(j, references)
		a.say(altered(j, option))
		a.say(Event{Kind: BlockingJobs, Names: blocking})
		a.say(Event{Kind: ExitedJobs, Names: exited})
	}
	if option == "-hold_jid" {
		if err := c.resolveDependencies(j, from.PrecedingJobs, nil); err != nil {
			return err
		}
		jobs, next.jobs = from.PrecedingJobs, j.predecessors.jobs
		if slices.Contains(jobs, itoa(j.ID())) {
			return denied(Event{Kind: OwnPredecessor, Name: itoa(j.ID())})
		}
		say(jobs)
	} else {
		if !j.IsArray() {
			return denied(Event{Kind: ArrayHoldOfSingle})
		}
		if err := c.resolveDependencies(j, nil, from.PrecedingTasks); err != nil {
			return err
		}
		tasks, next.tasks = from.PrecedingTasks, j.predecessors.tasks
		say(tasks)
	}
	following := c.following(j.ID())
	for _, id := range slices.Concat(next.jobs, next.tasks) {
		if id == j.ID() || following[id] {
			return denied(Event{Kind: DependencyCycle, Job: j.ID(), Number: int64(id)})
		}
	}
	j.predecessors = next
	j.asked.PrecedingJobs, j.asked.PrecedingTasks = jobs, tasks
	return nil
}

// existing returns the job numbers to which the references of -hold_jid lead, and those references
// that are the number of no job.
func (c *Cell) existing(j *Job, references []string) (there, gone []string) {
	seen, listed := map[string]bool{}, map[uint32]bool{j.ID(): true}
	for _, ref := range references {
		_, numbered := jobNumber(ref)
		if seen[ref] && !numbered { // it may match thousands of jobs
			continue
		}
		seen[ref] = true
		found := c.matchPredecessors(ref, j.Owner())
		if numbered && len(found) == 0 {
			gone = append(gone, ref)
		}
		for _, p := range found {
			if !listed[p.ID()] {
				listed[p.ID()] = true
				there = append(there, itoa(p.ID()))
			}
		}
	}
	return there, gone
}

func (c *Cell) peExists(pattern string) bool {
	e, err := expression.Compile(expression.String, pattern)
	return err == nil && slices.ContainsFunc(c.cluster.PENames(), e.Match)
}

// alterResources replaces the hard and the soft requests of -l, see replaceRequests.
func alterResources(from, to *submit.Request, modified func(soft bool)) {
	isSoft := func(r submit.ResourceRequest) bool { return r.Soft }
	if len(from.Resources) == 0 { // -l ''
		to.Resources = slices.DeleteFunc(slices.Clone(to.Resources), func(r submit.ResourceRequest) bool { return !r.Soft })
		modified(false)
	}
	to.Resources = replaceRequests(from.Resources, to.Resources, isSoft, modified)
}

// alterQueues replaces the hard and the soft requests of -q, see replaceRequests.
func alterQueues(from, to *submit.Request, modified func(soft bool)) {
	isSoft := func(q submit.QueueRequest) bool { return q.Soft }
	to.Queues = replaceRequests(from.Queues, to.Queues, isSoft, modified)
}

// replaceRequests returns the requests of a job with its hard and its soft ones replaced, each only if
// there are new ones. It calls modified for each kind that it replaces.
func replaceRequests[R any](from, to []R, isSoft func(R) bool, modified func(soft bool)) []R {
	for _, soft := range []bool{false, true} {
		is := func(r R) bool { return isSoft(r) == soft }
		if !slices.ContainsFunc(from, is) {
			continue
		}
		to = slices.DeleteFunc(slices.Clone(to), is)
		for _, r := range from {
			if is(r) {
				to = append(to, r)
			}
		}
		modified(soft)
	}
	return to
}

// alterRun applies an option that concerns only the run of a job.
func alterRun(option string, from, to *submit.Request) {
	switch option {
	case "-A":
		to.Account = from.Account
	case "-binding":
		to.Binding = from.Binding
	case "-c":
		to.CheckpointWhen, to.CheckpointInterval = from.CheckpointWhen, from.CheckpointInterval
	case "-ckpt":
		to.Checkpoint = from.Checkpoint
	case "-cwd", "-wd":
		to.WorkingDir = from.WorkingDir
	case "-e":
		to.Error = from.Error
	case "-i":
		to.Input = from.Input
	case "-o":
		to.Output = from.Output
	case "-j":
		to.Join = from.Join
	case "-m":
		to.MailOptions = from.MailOptions
	case "-M":
		to.Mail = from.Mail
	case "-notify":
		to.Notify = from.Notify
	case "-r":
		to.Rerun = from.Rerun
	case "-S":
		to.Shell = from.Shell
	case "-v", "-V":
		to.Env = from.Env
	}
}
