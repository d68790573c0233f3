package scheduler

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// run is a scheduling run in progress. It books its decisions in the state, so that they affect the
// next job, and undoes all of them at the end.
type run struct {
	matcher
	decisions  *Decisions
	order      *instanceOrder
	load       []float64 // by host: the load formula
	categories []*categoryRun
	explaining bool
	started    []*Running
	lookedBack lookBackIn     // see newLookBack
	hostIndex  []int32        // by host, while instances are grouped: see hostGroups.add
	groups     hostGroups     // see offers
	owners     map[string]int // tasks that started, by owner
	reserved   int            // reservations that were made
	shunned    []bool         // by host, see shun
	lost       []HostID       // see loseShared
	idle       bool           // no instance is left, and a job has this reason
	finder     *Job           // that job
	asked      query          // for the current task; stored here to avoid an allocation for each
	separated  bool           // see separate
	postponed  []InstanceID   // instances that were dropped and may be reserved: full, or closed by a calendar
	overloaded []InstanceID   // instances that tasks of this run have put into load alarm
	unsorted   []HostID       // hosts whose load has changed since the order was sorted
	stale      bool           // the order must not change, see forgetSorting
	shuffled   bool           // hosts have changed places since the last job was tried
	displaced  bool           // hosts have changed places since the order was sorted; known where jobs may reserve
	settled    bool           // see sortHosts
	numbered   bool           // a parallel job has been compared with hosts since, see forgetSorting
	sorted     bool           // see reservable
	free       int            // slots of usable instances at most, once counted: see tooFew
	counted    bool
	jobsOf     map[*Category]int // see hasSeveral
	mixed      bool              // full instances are sorted among the others, see reservable
}

// categoryRun holds the run's results for a category.
type categoryRun struct {
	search   search
	rejected bool
	// unreservable is set when no place could be reserved for a job of the category.
	unreservable bool
	// reservingSaid is set when the reasons have been found why it has to be later.
	reservingSaid bool
	barred        []bool // hosts that a reason has ruled out for the category
	reasons       []Reason
	// unbookable are the places that would be suitable if the amounts that jobs use there could be
	// added exactly.
	unbookable []Reason
	category   *Category // keeps the category's index while reasons may be requested
	pes        []PEID    // see environments
	useless    map[PEID]*useless
}

// Run executes one scheduling run: it decides which of the pending tasks start, and where. When it
// returns, the state is unchanged; the caller carries out the decisions and reports them to the
// state (Start, SetSuspended).
func (s *State) Run(now int64) *Decisions {
	s.quotas.usage.Settle()
	r := s.newRun(now)
	r.planAhead()
	r.suspendByThreshold()
	r.prepareOrder(append(r.conditions(), r.notFull)...)
	heads := r.rank()
	if r.order.count == 0 && (r.plan == nil || len(r.postponed) == 0) {
		r.decisions.Dropped = append(r.decisions.Dropped, Reason{kind: allDropped, model: s.model})
	} else {
		r.dispatch(heads)
	}
	r.decisions.reasons = r.categories
	r.undo()
	return r.decisions
}

func (s *State) newRun(now int64) *run {
	info := &s.model.scheduler.ScheddJobInfo
	return &run{
		matcher: matcher{view: newView(s, now)},
		decisions: &Decisions{
			now: now, model: s.model, running: map[*Running]tickets.Tickets{},
			limited: map[string]bool{}, passed: map[*Job]int{},
		},
		owners:     map[string]int{},
		explaining: (info.All || len(info.Jobs) > 0) && !s.silent,
	}
}

// prepareOrder finds the instances that can be used, and their order.
func (r *run) prepareOrder(conditions ...condition) {
	r.load = make([]float64, len(r.model.hosts))
	for h := range r.load {
		r.load[h] = r.sortValue(HostID(h))
	}
	all := r.byModification()
	r.order = newOrder(r.State, all, r.usable(slices.Clone(all), conditions), r.load)
}

// undo restores the state to that before the run.
func (r *run) undo() {
	for _, task := range slices.Backward(r.started) {
		// Amounts that could be added can be subtracted.
		_ = r.bookTask(task, -1)
	}
}

// dispatch handles the tasks in the order of their priority, until there are no more tasks or no
// more instances.
func (r *run) dispatch(h *heads) {
	if r.model.scheduler.MaxUJobs > 0 {
		for _, l := range r.pending.list {
			r.overLimit(l.key.owner)
		}
	}
	for !h.empty() {
		if r.refused(h.category()) {
			h.drop()
			continue
		}
		top := h.top()
		r.mixed = false
		more := false
		switch {
		case r.overLimit(top.job.Owner) || r.done(top):
		case r.attempt(top):
			if r.exhausted() {
				return
			}
			more = r.advance(top)
		case r.keepFree(top) && top.left > 1 && r.reserved < r.model.scheduler.MaxReservation:
			// The next task takes its turn with the tickets that it has.
			more = r.advance(top)
		default:
			more = r.nextInLine(top)
		}
		if more {
			h.fix()
		} else {
			h.pop()
		}
	}
}

// tooFew reports whether all instances together have fewer free slots now, so that no place has to
// be checked. It returns false for queries about the future or with reasons.
func (r *run) tooFew(q *query, slots int) bool {
	if !q.is(starting) || q.trace != nil {
		return false
	}
	if !r.counted {
		r.counted, r.free = true, r.freeSlots()
	}
	return slots > r.free
}

// refused reports whether no job of a category can start in this run any more.
func (r *run) refused(category int) bool {
	if category >= len(r.categories) {
		return false
	}
	c := r.categories[category]
	return c != nil && c.rejected && (c.unreservable || r.reserved >= r.model.scheduler.MaxReservation)
}

// done reports whether a head needs no further attempts: its category has been refused, and none of
// its jobs needs a reservation.
func (r *run) done(h *head) bool {
	c := r.categoryState(h.job.Category)
	return c.rejected && !r.mayReserve(h.job)
}

// categoryState returns the run's state of a category. It creates the state on first use.
func (r *run) categoryState(c *Category) *categoryRun {
	for len(r.categories) <= c.index {
		r.categories = append(r.categories, nil)
	}
	if r.categories[c.index] == nil {
		r.categories[c.index] = &categoryRun{category: c, search: search{refused: make([]uint64, (len(r.model.instances)+63)/64), merges: r.order.merges}}
	}
	return r.categories[c.index]
}

// attempt starts the first task of a head if there is a place for it. If the job may reserve, Grid Engine adds full
// instances to its list, and removes them when a task starts or places are reserved.
func (r *run) attempt(h *head) bool {
	c := r.categoryState(h.job.Category)
	if h.job.Reserve && !c.unreservable && r.reserved < r.model.scheduler.MaxReservation {
		if r.order.count > 0 {
			r.readmit()
		}
		if r.plan != nil && !h.job.Category.hopeless {
			r.order.linger(r.postponed)
		}
	}
	if !c.rejected && !r.idle {
		// If nothing is left, the first job finds that out for all others.
		if r.idle = r.order.count == 0; r.idle {
			r.finder = h.job
		}
		if !h.job.Category.Parallel() {
			r.sort()
		}
		if r.startAnywhere(h, c) {
			return true
		}
		// Hosts that only this job may not use say nothing about the others.
		c.rejected = len(h.job.Excluded) == 0
		c.unreservable = c.unreservable || len(c.useless) > 0 && r.mayReserve(h.job) && !r.sufficesLater(&r.asked)
		if len(c.reasons) == 0 {
			if t := r.explain(r.ask(h.job, 0)); t != nil {
				c.reasons, c.barred = t.quotasOnce(), t.barred
			}
			c.reasons = append(c.reasons, c.unbookable...)
		}
	}
	return false
}

// keepFree reserves places for the first task of a head if its job requests that.
func (r *run) keepFree(h *head) bool {
	if !r.mayReserve(h.job) {
		return false
	}
	r.sort()
	reserved := r.reserve(h)
	// Grid Engine does not try to reserve for such jobs in later runs, and does not use full instances for them either.
	h.job.Category.hopeless = !reserved
	if !reserved {
		r.categoryState(h.job.Category).unreservable = len(h.job.Excluded) == 0
	}
	return reserved
}

// mayReserve reports whether places may be reserved for a job: not in an empty cluster, in which
// nothing is planned.
func (r *run) mayReserve(j *Job) bool {
	return j.Reserve && r.plan != nil && !r.categoryState(j.Category).unreservable && r.reserved < r.model.scheduler.MaxReservation
}

// ask returns the query for a place for a task of a job from now on.
func (r *run) ask(j *Job, m mode) query {
	return query{job: j, category: j.Category, span: span{r.now, r.duration(j.Category)}, mode: m}
}

// startAnywhere starts the first task of a head if there is a place for it. If the task's amounts
// cannot be added exactly to the usage of the place, it records a problem, and tries the next best
// place for a serial job.
func (r *run) startAnywhere(h *head, c *categoryRun) bool {
	r.asked = r.ask(h.job, starting)
	for {
		start, ok := r.assign(&r.asked)
		if !ok {
			return false
		}
		err := r.begin(h, start)
		if err == nil {
			return true
		}
		id, cause := start.Grants[0].Instance, err
		if inner := errors.Unwrap(err); inner != nil {
			cause = inner // other jobs share the reason
		}
		if len(c.unbookable) == 0 {
			r.decisions.Problems = append(r.decisions.Problems, fmt.Errorf("cannot start a task in queue instance %s: %w", r.model.instances[id].name, err))
		}
		c.unbookable = append(c.unbookable, Reason{kind: notBookable, model: r.model, place: int32(id), text: cause.Error()})
		if cat := h.job.Category; cat.Parallel() || cat.requests.Reservation != 0 {
			return false
		}
		c.search.refuse(id)
	}
}

// begin books a task that starts. If there is an error, nothing of it is in use.
func (r *run) begin(h *head, start Start) error {
	start.Job, start.Task = h.job, uint32(h.tasks.First())
	start.Priority, start.Tickets = h.priority, h.current()
	r.giveCores(h.job.Category, start.Grants, span{r.now, r.withOffset(start.Duration)})
	r.giveElements(h.job.Category, start.Grants)
	r.expectCores(h.job.Category, start.Grants)
	task := &Running{Job: h.job, Task: start.Task, Started: r.now, PE: start.PE, Grants: start.Grants}
	if err := r.bookTask(task, +1); err != nil {
		return err
	}
	r.free -= task.Slots()
	if c := h.job.Category; c.Parallel() {
		r.settled = !c.isSoft()
	}
	r.decisions.Starts = append(r.decisions.Starts, start)
	r.started = append(r.started, task)
	r.order.leave()
	r.owners[h.job.Owner]++
	r.overLimit(h.job.Owner)
	r.planStart(&r.decisions.Starts[len(r.decisions.Starts)-1])
	r.shun(&start)
	r.hasStarted(start.Grants)
	r.refresh(start.Grants)
	return nil
}

// refresh updates the order for the hosts of a starting task. Other hosts are not sorted again even
// if the task changes the resources of the whole cluster; instances there are dropped only because
// of load values.
func (r *run) refresh(grants []Grant) {
	r.dropLost()
	if r.globalLoadMoves() {
		for h := range r.load {
			r.dropUnusable(HostID(h))
		}
	}
	last, changed := HostID(None), false
	for _, g := range grants {
		h := r.model.instances[g.Instance].host
		if h == last {
			continue
		}
		last = h
		r.dropUnusable(h)
		if load := r.sortValue(h); load != r.load[h] {
			displaced := r.stale || r.order.tiers || r.plan != nil && !r.displaced
			if displaced = displaced && (r.numbered || r.passes(h, load)); displaced {
				r.shuffled = r.shuffled || r.stale || r.order.tiers
				r.stale, r.displaced = false, true
			}
			r.load[h], r.sorted, changed = load, false, true
			if !slices.Contains(r.unsorted, h) {
				r.unsorted = append(r.unsorted, h)
			}
		}
	}
	r.numbered = r.numbered && !changed
}

// dropUnusable drops the instances of a host that cannot be used any more.
func (r *run) dropUnusable(h HostID) {
	for _, id := range r.model.hosts[h].instances {
		if r.order.usable(id) && !r.stillUsable(id) {
			r.order.drop(id)
			if _, free := r.notFull(id); !free {
				r.postponed = append(r.postponed, id)
			} else if !r.subordinated(id) {
				r.overloaded = append(r.overloaded, id)
			}
		}
	}
}

// readmit restores the instances that tasks of this run have put into load alarm. Grid Engine does
// so when it looks for a place to reserve, and keeps them for all following jobs, but ends the run as
// soon as no instance is left (tested). It also
// restores instances that a task of the run suspends by subordination; readmit does not. They are
// at the end of its list until it is sorted, for which hosts have to change places (tested).
func (r *run) readmit() {
	for _, id := range r.overloaded {
		r.order.restore(id, r.load[r.model.instances[id].host], r.displaced)
	}
	r.overloaded = nil
	r.counted = false // they may have free slots
}

// globalLoadMoves reports whether a job that starts changes a load value of the whole
// cluster, and with it perhaps alarms on all hosts.
func (r *run) globalLoadMoves() bool {
	for _, a := range r.model.adjustments {
		if r.loadValue(GlobalHost, a.attribute).IsValid() {
			return true
		}
	}
	return false
}

// exhausted reports whether no instance is left. Then all jobs wait for the same reason.
func (r *run) exhausted() bool {
	if r.plan != nil {
		return false // a reservation may be needed
	}
	if r.order.count > 0 {
		return false
	}
	r.decisions.Dropped = append(r.decisions.Dropped, Reason{kind: allDropped, model: r.model})
	return true
}

// advance moves to the next task of a job, or to the next job of its line.
func (r *run) advance(h *head) bool {
	if h.left--; h.left == 0 {
		return r.nextInLine(h)
	}
	h.tasks = h.tasks.Remove(h.tasks.First())
	if len(h.tickets) > 1 {
		h.tickets = h.tickets[1:]
		r.decisions.passed[h.job]++
	}
	r.setPriority(h)
	return true
}

// nextInLine moves to the next job of a line that may start a task.
func (r *run) nextInLine(h *head) bool {
	for len(h.rest) > 0 {
		if r.enter(h, h.rest[0]) {
			return true
		}
	}
	return false
}

// enter makes j the job of a head. It returns false if none of its tasks may start.
func (r *run) enter(h *head, j *Job) bool {
	if len(h.rest) > 0 {
		h.rest = h.rest[1:]
	}
	h.job, h.tasks, h.left = j, j.Tasks, r.model.startable(j)
	if h.left == 0 {
		return false
	}
	r.setPriority(h)
	return true
}

func (r *run) setPriority(h *head) {
	j := priorityJob(h.job, h.current().Total)
	h.priority = r.model.weights.One(&j, &r.decisions.bounds, r.now)
}

// startable returns the number of tasks of a job that may start under the limits on active tasks
// (sge_conf(5), max_aj_instances; qsub(1), -tc).
func (m *Model) startable(j *Job) int {
	waiting := j.Tasks.Len()
	limit := m.cluster.Global().MaxAJInstances
	if j.TaskLimit > 0 && (j.TaskLimit < limit || limit == 0) {
		limit = j.TaskLimit
	}
	if !j.Array || limit == 0 || waiting <= limit-j.Active {
		return waiting
	}
	return max(limit-j.Active, 0)
}

// candidates returns the instances that the run tries, in order: the same for all jobs.
func (r *run) candidates(q *query) iter.Seq[InstanceID] {
	if q.is(later) {
		return r.reservable()
	}
	return r.order.all()
}

// overLimit applies maxujobs of sched_conf(5).
func (r *run) overLimit(owner string) bool {
	limit := r.model.scheduler.MaxUJobs
	if limit == 0 || r.perOwner[owner]+r.owners[owner] < limit {
		return false
	}
	r.decisions.limited[owner] = true
	return true
}
