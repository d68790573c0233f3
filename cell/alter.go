package cell

import (
	"cmp"
	"slices"
	"strings"
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
		if t.absent != "" {
			a.deny("%s", t.absent)
			continue
		}
		if !c.mayChange(by, t.job) {
			a.deny("%s", notOwner(by, t.job).Error())
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
			a.deny("%s", err.Error())
			return
		}
	}
	submission := j.Submission
	if by.Confirms != nil {
		var err error
		if submission, err = by.Confirms(j, &request); err != nil {
			a.deny("%s", err.Error())
			return
		}
	}
	verdict := &Answer{}
	if r.Has("-w") && !c.validateAltered(now, j, r.Request.Validation, verdict) {
		a.Lines = append(a.Lines, verdict.Lines...)
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
		a.deny("%s", err.Error())
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
	a.Lines = append(append(a.Lines, said.Lines...), verdict.Lines...)
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
			return denied("denied: resource request on consumable %q of running job was not contained in former resource request", s.Name)
		case before[i].Value != s.Value:
			return denied("denied: can't change consumable resource request %q of running job", s.Name)
		}
	}
	for _, s := range before {
		if find(after, s.Name) < 0 {
			return denied("denied: former resource request on consumable %q of running job missing in new resource request", s.Name)
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

// freeze stores with the running tasks of a job the requests that they were started with, because
// these are booked. Alterations apply when the tasks are started again.
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
	for _, t := range c.unbooked { // it counts for the job's current project
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
	modified := func(what string) { a.say("modified %s of job %d", what, j.ID()) }
	switch option {
	case "-N":
		if from.Name != "" {
			to.Name = from.Name
			modified("job name")
		}
	case "-R":
		to.Reserve = from.Reserve
		modified("reservation behaviour")
	case "-tc":
		if to.Array == nil {
			return denied("invalid option argument \"task concurrency\"")
		}
		to.TaskLimit = from.TaskLimit
		modified("task concurrency")
	case "-ac", "-dc", "-sc":
		to.Context = r.ChangeContext(to.Context)
		modified("context")
	default:
		modified(alterRun(option, from, to))
	}
	return nil
}

// alterRank applies an option that changes the job's rank in the dispatch order.
func (c *Cell) alterRank(by Caller, j *Job, r *submit.Alteration, option string, a *Answer) error {
	from, to, id := &r.Request, j.asked, j.ID()
	switch option {
	case "-p":
		if from.Priority > j.sched.Priority && !c.isOperator(by.User) {
			return denied("denied: %q must be operator to increase job priority", by.User)
		}
		to.Priority, j.sched.Priority = from.Priority, from.Priority
		a.say("%s@%s sets scheduling priority of job %d to %d", by.User, by.Host, id, from.Priority)
	case "-ot":
		if !c.isOperator(by.User) {
			return denied("denied: %q must be operator to change amount of override tickets", by.User)
		}
		j.sched.Override = float64(r.Override)
		a.say("%s@%s sets override tickets of job %d to %d", by.User, by.Host, id, r.Override)
	case "-js":
		to.JobShare = from.JobShare
		a.say("%s@%s sets job share of job %d to %d", by.User, by.Host, id, from.JobShare)
	}
	return nil
}

// alterTime applies an option that changes the start time or the deadline of a job.
func (c *Cell) alterTime(by Caller, j *Job, from *submit.Request, option string, now time.Time, a *Answer) error {
	if option == "-a" {
		j.asked.Start, j.Start = from.Start, from.Start.Time(now).Unix()
		a.say("modified start time of job %d", j.ID())
		return nil
	}
	if err := c.mayHaveDeadline(by); err != nil {
		return err
	}
	j.asked.Deadline, j.sched.Deadline = from.Deadline, from.Deadline.Time(now).Unix()
	a.say("modified deadline initiation of job %d", j.ID())
	return nil
}

// alterRequest applies an option that restricts where a job may run, see isRequest.
func (c *Cell) alterRequest(by Caller, j *Job, from *submit.Request, option string, a *Answer) error {
	to, id := j.asked, j.ID()
	modified := func(what string) { a.say("modified %s of job %d", what, id) }
	switch option {
	case "-l":
		asked, err := c.peOfSlots(from)
		if err != nil {
			return err
		}
		alterResources(c.inSeconds(asked), to, modified)
		if asked.PE != from.PE {
			return alterSlots(asked.PE, to, modified)
		}
	case "-q":
		alterQueues(from, to, modified)
	case "-masterq":
		to.MasterQueues = from.MasterQueues
		modified("master hard queue list")
	case "-pe":
		if e := c.peExists(from.PE.Name); !e {
			return denied("denied: parallel environment %q does not exist", from.PE.Name)
		}
		to.PE = from.PE
		modified("parallel environment")
		modified("slot range")
	case "-P":
		if to.Project != "" || from.Project != "" {
			modified("project")
		}
		to.Project = from.Project
	case "-ar":
		to.Reservation = from.Reservation
		a.say("%s@%s sets job advance reservation of job %d to %d", by.User, by.Host, id, from.Reservation)
	case "-ckpt":
		if _, err := c.cluster.Checkpoint(from.Checkpoint); err != nil && from.Checkpoint != "" {
			return &DeniedError{Text: "denied: checkpointing environment \"" + from.Checkpoint + "\" does not exist", Err: err}
		}
		modified(alterRun(option, from, to))
	default:
		modified(alterRun(option, from, to))
	}
	return nil
}

// alterSlots changes the number of slots of a job whose parallel environment is that of SLOTS_PE,
// or that has none.
func alterSlots(pe *submit.ParallelRequest, to *submit.Request, modified func(string)) error {
	if to.PE != nil && to.PE.Name != pe.Name {
		return denied("denied: -l slots means the parallel environment %q, and the job has %q: use -pe", pe.Name, to.PE.Name)
	}
	to.PE = pe
	modified("parallel environment")
	modified("slot range")
	return nil
}

func (c *Cell) alterDependencies(j *Job, from *submit.Request, option string, a *Answer) error {
	jobs, tasks := j.asked.PrecedingJobs, j.asked.PrecedingTasks
	next := j.predecessors
	said := func(list string, references []string) {
		blocking, exited := c.dependencyTexts(j, references)
		a.say("modified %s of job %d", list, j.ID())
		a.say("   blocking jobs: %s", blocking)
		a.say("   exited jobs:   %s", exited)
	}
	if option == "-hold_jid" {
		if err := c.resolveDependencies(j, from.PrecedingJobs, nil); err != nil {
			return err
		}
		jobs, next.jobs = from.PrecedingJobs, j.predecessors.jobs
		if slices.Contains(jobs, itoa(j.ID())) {
			return denied("denied: job \"%d\" may not be its own jobnet predecessor", j.ID())
		}
		said("job id hold list", jobs)
	} else {
		if !j.IsArray() {
			return denied("Can only specify \"-hold_jid_ad\" option with an array job (using \"-t\" option)")
		}
		if err := c.resolveDependencies(j, nil, from.PrecedingTasks); err != nil {
			return err
		}
		tasks, next.tasks = from.PrecedingTasks, j.predecessors.tasks
		said("job id hold array list", tasks)
	}
	for _, id := range slices.Concat(next.jobs, next.tasks) {
		if c.waitsForItself(j.ID(), []uint32{id}) {
			return denied("job %d dependency change would generate a dependency cycle with job %d", j.ID(), id)
		}
	}
	j.predecessors = next
	j.asked.PrecedingJobs, j.asked.PrecedingTasks = jobs, tasks
	return nil
}

// waitsForItself reports whether a job with these predecessors would wait for itself.
func (c *Cell) waitsForItself(id uint32, predecessors []uint32) bool {
	seen := map[uint32]bool{}
	for len(predecessors) > 0 {
		p := predecessors[len(predecessors)-1]
		predecessors = predecessors[:len(predecessors)-1]
		if p == id {
			return true
		}
		if j := c.jobs[p]; j != nil && !seen[p] {
			seen[p] = true
			predecessors = append(append(predecessors, j.predecessors.jobs...), j.predecessors.tasks...)
		}
	}
	return false
}

// dependencyTexts returns the existing jobs of -hold_jid, and the numbers of those that do not
// exist.
func (c *Cell) dependencyTexts(j *Job, references []string) (blocking, exited string) {
	var there, gone []string
	for _, ref := range references {
		found := c.matchPredecessors(ref, j.Owner())
		if _, numbered := jobNumber(ref); numbered && len(found) == 0 {
			gone = append(gone, ref)
		}
		for _, p := range found {
			if id := itoa(p.ID()); p.ID() != j.ID() && !slices.Contains(there, id) {
				there = append(there, id)
			}
		}
	}
	return cmp.Or(strings.Join(there, ","), "NONE"), cmp.Or(strings.Join(gone, ","), "NONE")
}

func (c *Cell) peExists(pattern string) bool {
	e, err := expression.Compile(expression.String, pattern)
	return err == nil && slices.ContainsFunc(c.cluster.PENames(), e.Match)
}

// alterResources replaces the hard and the soft requests, each only if there are new ones.
func alterResources(from, to *submit.Request, modified func(string)) {
	if len(from.Resources) == 0 { // -l ''
		to.Resources = slices.DeleteFunc(slices.Clone(to.Resources), func(r submit.ResourceRequest) bool { return !r.Soft })
		modified(hardness(false) + " resource list")
	}
	for _, soft := range []bool{false, true} {
		is := func(r submit.ResourceRequest) bool { return r.Soft == soft }
		if !slices.ContainsFunc(from.Resources, is) {
			continue
		}
		to.Resources = slices.DeleteFunc(slices.Clone(to.Resources), is)
		for _, r := range from.Resources {
			if is(r) {
				to.Resources = append(to.Resources, r)
			}
		}
		modified(hardness(soft) + " resource list")
	}
}

// alterQueues does the same for -q.
func alterQueues(from, to *submit.Request, modified func(string)) {
	for _, soft := range []bool{false, true} {
		is := func(q submit.QueueRequest) bool { return q.Soft == soft }
		if !slices.ContainsFunc(from.Queues, is) {
			continue
		}
		to.Queues = slices.DeleteFunc(slices.Clone(to.Queues), is)
		for _, q := range from.Queues {
			if is(q) {
				to.Queues = append(to.Queues, q)
			}
		}
		modified(hardness(soft) + " queue list")
	}
}

func hardness(soft bool) string {
	if soft {
		return "soft"
	}
	return "hard"
}

// alterRun applies an option that concerns only the run of a job. It returns the original's name of
// the change.
func alterRun(option string, from, to *submit.Request) string {
	switch option {
	case "-A":
		to.Account = from.Account
		return "account"
	case "-binding":
		to.Binding = from.Binding
		return "binding"
	case "-c":
		to.CheckpointWhen, to.CheckpointInterval = from.CheckpointWhen, from.CheckpointInterval
		return "checkpoint attributes"
	case "-ckpt":
		to.Checkpoint = from.Checkpoint
		return "checkpointing environment"
	case "-cwd", "-wd":
		to.WorkingDir = from.WorkingDir
		return "working directory"
	case "-e":
		to.Error = from.Error
		return "stderr path list"
	case "-i":
		to.Input = from.Input
		return "stdin path list"
	case "-o":
		to.Output = from.Output
		return "stdout path list"
	case "-j":
		to.Join = from.Join
		return "output merge behaviour"
	case "-m":
		to.MailOptions = from.MailOptions
		return "mail options"
	case "-M":
		to.Mail = from.Mail
		return "mail list"
	case "-notify":
		to.Notify = from.Notify
		return "notify behaviour"
	case "-r":
		to.Rerun = from.Rerun
		return "restart behaviour"
	case "-S":
		to.Shell = from.Shell
		return "shell list"
	case "-v", "-V":
		to.Env = from.Env
		return "environment"
	}
	return strings.TrimPrefix(option, "-")
}
