package cell

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// requestPool makes restored jobs share equal requests.
type requestPool struct {
	known map[requestSum]*asked
}

// asked is a request and its origin.
type asked struct {
	*submit.Request
	origin *Origin
}

func (p *requestPool) read(value []byte) (*asked, requestSum, error) {
	sum := requestSum(sha256.Sum256(value))
	if known := p.known[sum]; known != nil {
		return known, sum, nil
	}
	x := &requestRecord{}
	if err := decode(value, x); err != nil {
		return nil, sum, err
	}
	if x.Request == nil {
		return nil, sum, errors.New("it has no request")
	}
	request := submit.Request(*x.Request)
	p.known[sum] = &asked{&request, (*Origin)(x.Origin)}
	return p.known[sum], sum, nil
}

// withScript returns a request with a script.
func (p *requestPool) withScript(r *asked, sum requestSum, script string) *asked {
	h := sha256.New()
	h.Write(sum[:])
	h.Write([]byte(script))
	var both requestSum
	h.Sum(both[:0])
	known := p.known[both]
	if known == nil || !bytes.Equal(known.Script, []byte(script)) {
		request := *r.Request
		request.Script = []byte(script)
		known = &asked{&request, r.origin}
		p.known[both] = known
	}
	return known
}

// allJobs restores the jobs by their numbers.
func (r *restoring) allJobs() {
	c := r.cell
	c.lastJob, c.reservations.last, c.changes = r.counters.Job, r.counters.Reservation, r.counters.Changes
	for _, id := range slices.Sorted(maps.Keys(r.jobs)) {
		c.lastJob = max(c.lastJob, id)
		x := r.jobs[id]
		var err error
		switch {
		case !x.state:
			err = errors.New("its main record is missing or cannot be read, and the job has other records")
		case x.request == nil:
			err = fmt.Errorf("its record %q is missing or cannot be read", jobKey(requestPrefix, id))
		default:
			err = r.restoreJob(id, x)
		}
		if err != nil {
			r.problem(jobKey(jobPrefix, id), err)
		}
	}
}

// leaveDependencies removes dependencies on tasks that do not exist.
func (r *restoring) leaveDependencies() {
	c := r.cell
	for _, j := range c.Jobs() {
		for _, id := range slices.Clone(j.predecessors.tasks) {
			if p := c.jobs[id]; p != nil && (!p.IsArray() || p == j) {
				r.problem(jobKey(jobPrefix, j.ID()), fmt.Errorf("it waits for the tasks of job %d, which is not another array job", id))
				c.dependencies.remove(j.ID(), j.predecessors)
				j.predecessors.tasks = sortedRemove(slices.Clone(j.predecessors.tasks), id)
				c.dependencies.add(j.ID(), j.predecessors)
			}
		}
	}
}

// restoreJob restores a job without its tasks.
func (r *restoring) restoreJob(id uint32, x *restoredJob) (err error) {
	c := r.cell
	j := &Job{
		asked: x.request.Request, Origin: x.request.origin, Group: x.Group, Host: x.Host, Submission: x.Submission, Project: x.Project, Start: x.Start, Version: x.Alteration,
		predecessors: predecessors{jobs: x.Predecessors, tasks: x.TaskPredecessors}, saved: jobState | jobRequest,
		ran: x.Ran, ending: (*Ending)(x.Ending),
	}
	switch s := x.script; {
	case s == nil:
	case s.Sum != "":
		j.scriptFile = &scriptFile{sum: s.Sum, size: s.Size}
		j.saved |= jobScript
	default:
		j.asked = r.requests.withScript(x.request, x.sum, s.Text).Request
		j.saved |= jobScript
	}
	if j.Holds, err = holdsOf(x.Holds); err != nil {
		return err
	}
	if j.Waiting, err = rangesOf(x.Waiting); err != nil {
		return err
	}
	switch {
	case len(j.predecessors.tasks) > 0 && !j.IsArray():
		return errors.New("it waits for tasks and is not an array job")
	case !slices.IsSorted(j.predecessors.jobs) || !slices.IsSorted(j.predecessors.tasks):
		return errors.New("the jobs that it waits for are not sorted")
	}
	tasks := submit.Array{First: 1, Last: 1, Step: 1}
	if j.IsArray() {
		tasks = *j.asked.Array
	}
	if tasks.First < 1 || tasks.Last < tasks.First || tasks.Last > math.MaxInt32 || tasks.Step < 1 {
		return fmt.Errorf("its tasks are %+v", tasks)
	}
	if w := j.Waiting; !w.IsEmpty() && (w.First() < tasks.First || w.Last() > tasks.Last) {
		return fmt.Errorf("its tasks are %+v, and %s wait", tasks, w)
	}
	s := &j.sched
	s.ID, s.Owner, s.Submitted, s.Deadline = id, x.Owner, x.Submitted, x.Deadline
	s.Priority, s.Override, s.Shares = j.asked.Priority, float64(x.Override), float64(j.asked.JobShare)
	s.Reserve, s.TaskLimit, s.Array = j.asked.Reserve && !j.asked.Immediate, j.asked.TaskLimit, j.IsArray()
	requests := j.requests()
	for i, without := range lessAndLess {
		without(requests)
		category, err := c.model.Category(requests)
		if err == nil {
			s.Category = category
			break
		}
		if i == 0 {
			j.Problem = err.Error()
		}
	}
	if s.Category == nil {
		return errors.New("its requests cannot be read")
	}
	x.job = j
	for i, size := range x.kept {
		c.keep(j.Owner(), &j.kept[i], size)
	}
	c.countScriptFile(j)
	c.share(j)
	c.jobs[id] = j
	c.order = append(c.order, id)
	c.perUser[j.Owner()]++
	c.name(j)
	c.entitle(j)
	c.dependencies.add(j.ID(), j.predecessors)
	c.reservations.enter(j)
	c.changes = max(c.changes, x.Changed)
	c.state.SetChanged(s, x.Changed)
	s.StartOrder = x.Started
	r.counters.Starts = max(r.counters.Starts, x.Started)
	if j.Start > c.now {
		c.timers.add(timer{at: j.Start, kind: startTime, id: id})
	}
	if x.Immediate {
		c.immediate = append(c.immediate, j)
	}
	return nil
}

// allTasks restores the tasks with a state of their own; running tasks in the order of their
// starts.
func (r *restoring) allTasks() {
	type running struct {
		task   *Task
		record *runRecord
		order  int64
	}
	var list []running
	for _, x := range r.tasks {
		j := r.jobs[x.job].job
		if j == nil {
			continue // already reported as a problem
		}
		t, err := x.task(j, r.cell.now, r.cell.comebackPauses())
		if err != nil {
			r.problem(taskKey(taskPrefix, x.job, x.number), err)
			continue
		}
		j.tasks = append(j.tasks, t)
		for _, b := range t.backoffs() {
			r.cell.wakeAfter(t, b)
		}
		r.cell.keep(j.Owner(), &t.kept, x.kept)
		j.Waiting = j.Waiting.Remove(int(t.Number))
		if t.dirty {
			r.cell.unbooked = append(r.cell.unbooked, t)
		}
		if x.Run != nil {
			order := j.sched.StartOrder
			if x.Run.Frozen != nil {
				order = x.Run.Frozen.Started
			}
			t.Started = x.Run.Started
			list = append(list, running{t, x.Run, order})
		}
	}
	slices.SortStableFunc(list, func(a, b running) int {
		return compareStarted(a.task.Started, b.task.Started, a.order, b.order)
	})
	for _, x := range list {
		if err := r.run(x.task, x.record); err != nil {
			x.task.Started = 0
			r.problem(taskKey(taskPrefix, x.task.Job.ID(), x.task.Number), fmt.Errorf("the task is running, but is pending here: %w", err))
		}
	}
	r.cell.state.SetStarts(r.counters.Starts)
	for _, j := range r.cell.Jobs() {
		if j.gone() {
			r.problem(jobKey(jobPrefix, j.ID()), errors.New("it has no tasks, or they cannot be read"))
			j.saved = 0 // nothing is stored, so there is nothing to remove
			r.cell.leave(r.cell.now, j)
		}
	}
	for _, x := range r.ended {
		j := r.job(x.job).job
		if j == nil { // the job has left
			j = &Job{Project: x.Project}
			j.sched.ID, j.sched.Owner = x.job, x.User
		}
		t := &Task{Job: j, Number: x.number, Used: x.Used.amounts(), booked: x.Booked.amounts(), dirty: true, saved: savedTask{usage: true}}
		r.cell.unbooked = append(r.cell.unbooked, t)
	}
}

// task returns the task of a record, without its run. comeback holds the possible delays between
// two runs.
func (x *restoredTask) task(j *Job, now int64, comeback pauses) (*Task, error) {
	holds, err := holdsOf(x.Holds)
	if err != nil {
		return nil, err
	}
	t := &Task{
		Job: j, Number: x.number, Holds: holds, Error: x.Error, Message: x.Message, Deleted: x.Deleted, DeletedBy: x.DeletedBy, Restarts: x.Restarts, Refusals: x.Refusals,
		Priority: float64(x.Priority), NormalizedTickets: float64(x.Normalized),
		Used: x.Used.amounts(), booked: x.Booked.amounts(), dirty: x.Reported, saved: savedTask{state: true},
	}
	if k := x.Tickets; k != nil {
		t.Tickets = tickets.Tickets{
			Share: float64(k.Share), Functional: float64(k.Functional), Override: float64(k.Override), Total: float64(k.Total), Portion: float64(k.Portion),
		}
	}
	for _, u := range x.Unclean {
		t.unclean = append(t.unclean, unclean{attempt: u.Attempt, host: u.Host})
	}
	if x.Back != nil {
		t.comeback = x.Back.backoff(now, comeback)
	}
	if f := x.Refused; f != nil {
		t.refused = &refusal{backoff: f.backoff(now, refusalPauses()), host: f.Host, reason: f.Reason}
	}
	return t, nil
}

// allReservations restores the advance reservations. They book their places before the tasks that
// run in them.
func (r *restoring) allReservations() {
	c := r.cell
	for _, x := range r.reservations {
		if err := r.restoreReservation(x); err != nil {
			r.problem(reservationKey(x.id), err)
		}
	}
	for _, x := range c.reservations.list {
		if x.Start > c.now {
			c.timers.add(timer{at: x.Start, kind: reservationDue, id: x.ID})
		}
		if !x.Deleted {
			c.timers.add(timer{at: x.End, kind: reservationDue, id: x.ID})
		}
	}
}

func (r *restoring) restoreReservation(x *restoredReservation) error {
	c := r.cell
	if x.Request == nil {
		return errors.New("it has no request")
	}
	request := submit.Reservation(*x.Request)
	a := &Reservation{
		ID: x.id, Request: &request, Owner: x.Owner, Group: x.Group, Submitted: x.Submitted, Start: x.Start, End: x.End, Deleted: x.Deleted,
	}
	s := &scheduler.Reservation{ID: x.id, Start: x.Start, End: x.End, PE: scheduler.None}
	a.sched = s
	requests := requestsOf(Caller{User: x.Owner, Group: x.Group}, &request)
	var err error
	for _, without := range lessAndLess {
		without(requests)
		if s.Category, err = c.model.Category(requests); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if s.Grants, err = c.grants(x.Grants); err != nil {
		return err
	}
	if pe, ok := c.model.PE(x.PE); ok && x.PE != "" {
		s.PE = pe
	}
	if err := c.state.AddReservation(s); err != nil {
		return err
	}
	c.reservations.add(a)
	c.keep(a.Owner, &a.kept, x.kept)
	return nil
}
