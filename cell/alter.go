package cell

import (
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// Alter is qalter(1). Each job is altered as a whole, or, with the reason, not at all.
func (c *Cell) Alter(now int64, by Caller, r *submit.Alteration) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, t := range c.targets(by, true, r.Jobs, r.Users, a) {
		if !c.mayChange(by, t.job) {
			a.deny("%s - you do not have the necessary privileges to modify the job \"%d\"", by.User, t.job.ID())
			continue
		}
		c.alterJob(now, by, t, r, a)
	}
	return c.done(a)
}

// alterJob changes a copy of the job's request, checks it like that of a new job, and then
// puts it in the place of the old one.
func (c *Cell) alterJob(now int64, by Caller, t target, r *submit.Alteration, a *Answer) {
	j := t.job
	said := &Answer{}
	next := &Job{Group: j.Group, Holds: j.Holds, predecessors: j.predecessors, taskPredecessors: j.taskPredecessors}
	next.sched.ID, next.sched.Owner = j.ID(), j.Owner()
	next.sched.Override = j.sched.Override
	next.Start, next.sched.Deadline, next.sched.Priority = j.Start, j.sched.Deadline, j.sched.Priority
	request := *j.Request
	next.Request = &request
	local := time.Unix(now, 0).In(c.zone)
	for _, option := range alterOrder(r) {
		if err := c.alterOption(by, next, r, option, local, said); err != nil {
			a.deny("%s", err.Error())
			return
		}
	}
	err := c.describeAltered(by, j, next)
	if err == nil && r.Has("-l") {
		err = c.checkConsumables(j, next)
	}
	if err != nil {
		a.deny("%s", err.Error())
		return
	}
	c.replace(now, j, next)
	if r.Has("-h") {
		c.holdJob(by, t, r.Holds, said)
	}
	a.Lines = append(a.Lines, said.Lines...)
}

// alterOrder are the options in the order in which they are said to have been changed.
func alterOrder(r *submit.Alteration) []string {
	options := slices.DeleteFunc(slices.Clone(r.Options), func(o string) bool { return o == "-h" || o == "-soft" || o == "-hard" })
	slices.Sort(options)
	return options
}

// describeAltered checks what an altered job asks for.
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

// checkConsumables refuses to change what a running job uses up (qalter(1), -l).
func (c *Cell) checkConsumables(j, next *Job) error {
	if !j.runs() {
		return nil
	}
	consumed := func(j *Job) (list []string) {
		for _, r := range j.Request.Resources {
			if x, ok := c.cluster.Complexes().Find(r.Name); ok && x.Consumable != qconf.ConsumableNo && !r.Soft {
				list = append(list, x.Name+"="+r.Value)
			}
		}
		slices.Sort(list)
		return list
	}
	if !slices.Equal(consumed(j), consumed(next)) {
		return denied("denied: cannot change the consumables that job %d requests while it runs", j.ID())
	}
	return nil
}

func (j *Job) runs() bool {
	return slices.ContainsFunc(j.tasks, func(t *Task) bool { return t.run != nil })
}

// freeze has the running tasks of a job keep what they were started with: that is what is
// booked for them. What is altered holds when they are started again.
func (j *Job) freeze() {
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
	}
}

// replace gives a job what an altered copy of it has.
func (c *Cell) replace(now int64, j, next *Job) {
	c.state.Dequeue(&j.sched)
	if j.sched.Category != next.sched.Category {
		j.freeze()
	}
	c.independ(j)
	c.leaveReservation(j)
	c.unname(j)
	j.Request, j.Project, j.Start, j.Problem = next.Request, next.Project, next.Start, ""
	j.predecessors, j.taskPredecessors = next.predecessors, next.taskPredecessors
	j.sched.Category, j.sched.Deadline, j.sched.Priority = next.sched.Category, next.sched.Deadline, next.sched.Priority
	j.sched.Override = next.sched.Override
	j.sched.Shares, j.sched.Reserve = float64(j.Request.JobShare), j.Request.Reserve && !j.Request.Immediate
	j.sched.TaskLimit = j.Request.TaskLimit
	c.name(j)
	c.entitle(j)
	c.depend(j)
	c.enterReservation(j)
	if j.Start > now {
		c.timers.add(timer{at: j.Start, kind: startTime, id: j.ID()})
	}
	c.refresh(j)
}

// alterOption changes what an option stands for.
func (c *Cell) alterOption(by Caller, j *Job, r *submit.Alteration, option string, now time.Time, a *Answer) error {
	from, to := &r.Request, j.Request
	id := j.ID()
	modified := func(what string) { a.say("modified %s of job %d", what, id) }
	switch option {
	case "-p":
		if from.Priority > j.sched.Priority && !c.isOperator(by.User) {
			return denied("denied: %q must be operator to increase the priority of job %d", by.User, id)
		}
		to.Priority, j.sched.Priority = from.Priority, from.Priority
		a.say("%s@%s sets scheduling priority of job %d to %d", by.User, by.Host, id, from.Priority)
	case "-ot":
		if !c.isOperator(by.User) {
			return denied("denied: %q must be operator to set the override tickets of job %d", by.User, id)
		}
		j.sched.Override = float64(r.Override)
		a.say("%s@%s sets override tickets of job %d to %d", by.User, by.Host, id, r.Override)
	case "-js":
		to.JobShare = from.JobShare
		a.say("%s@%s sets job share of job %d to %d", by.User, by.Host, id, from.JobShare)
	case "-a":
		to.Start, j.Start = from.Start, from.Start.Time(now).Unix()
		modified("execution time")
	case "-dl":
		if err := c.mayHaveDeadline(Caller{User: j.Owner(), Group: j.Group}); err != nil {
			return err
		}
		to.Deadline, j.sched.Deadline = from.Deadline, from.Deadline.Time(now).Unix()
		modified("deadline initiation")
	case "-hold_jid", "-hold_jid_ad":
		return c.alterDependencies(j, from, option, modified)
	case "-l":
		to.Resources = from.Resources
		modified("hard resource list")
	case "-q":
		to.Queues = from.Queues
		modified("hard queue list")
	case "-masterq":
		to.MasterQueues = from.MasterQueues
		modified("master hard queue list")
	case "-pe":
		to.PE = from.PE
		modified("parallel environment")
		modified("slot range")
	case "-P":
		to.Project = from.Project
		modified("project")
	case "-N":
		to.Name = from.Name
		modified("job name")
	case "-R":
		to.Reserve = from.Reserve
		modified("reservation")
	case "-tc":
		to.TaskLimit = from.TaskLimit
		modified("task concurrency")
	case "-ar":
		to.Reservation = from.Reservation
		modified("advance reservation")
	default:
		alterRun(option, from, to)
		modified(strings.TrimPrefix(option, "-"))
	}
	return nil
}

func (c *Cell) alterDependencies(j *Job, from *submit.Request, option string, modified func(string)) error {
	jobs, tasks := j.Request.PrecedingJobs, j.Request.PrecedingTasks
	was, wasTasks := j.predecessors, j.taskPredecessors
	if option == "-hold_jid" {
		if err := c.resolveDependencies(j, from.PrecedingJobs, nil); err != nil {
			return err
		}
		jobs, was = from.PrecedingJobs, j.predecessors
		modified("job id hold list")
	} else {
		if err := c.resolveDependencies(j, nil, from.PrecedingTasks); err != nil {
			return err
		}
		tasks, wasTasks = from.PrecedingTasks, j.taskPredecessors
		modified("job array dependencies")
	}
	if c.waitsForItself(j.ID(), append(slices.Clone(was), wasTasks...)) {
		return denied("denied: job %d would wait for itself", j.ID())
	}
	j.predecessors, j.taskPredecessors = was, wasTasks
	j.Request.PrecedingJobs, j.Request.PrecedingTasks = jobs, tasks
	return nil
}

// waitsForItself reports whether a job that waits for others would wait for itself.
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
			predecessors = append(append(predecessors, j.predecessors...), j.taskPredecessors...)
		}
	}
	return false
}

// alterRun changes what concerns the run of a job only.
func alterRun(option string, from, to *submit.Request) {
	switch option {
	case "-A":
		to.Account = from.Account
	case "-ac", "-dc", "-sc":
		to.Context = from.Context
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
