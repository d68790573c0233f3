package runner

import (
	"container/heap"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/simulate/workload"
)

// Options are settings in addition to the configuration and the jobs. The zero value is usable.
type Options struct {
	Start int64          // of the simulation, in seconds since 1970
	Until int64          // end in seconds after the start; 0 to continue until nothing more can happen
	Zone  *time.Location // of calendars; UTC if it is nil
	// Load holds load values, by host and attribute, in addition to the values that all hosts
	// report.
	Load map[string]map[string]string
	// Progress, if set, is called repeatedly.
	Progress func(p Progress)
}

// Progress is the progress of a simulation.
type Progress struct {
	Now                          int64 // seconds after the start
	Submitted, Running, Finished int   // jobs, tasks and tasks
	Runs                         int   // of the scheduler
}

// Task is the result of a task, or for tasks that never started, of their job. Times are seconds
// after the start of the simulation.
type Task struct {
	Job    uint32
	Number uint32 // of the task; 0 for a job that is not an array job
	Line   int    // line of the job in its file
	Trace  int64  // the job's number in a trace; 0 in a file of jobs
	Name   string
	User   string
	// Project is empty for none.
	Project string
	Submit  int64
	Start   int64 // -1 for never
	End     int64 // -1 if it did not end in time
	PE      string
	Slots   int     // the least number that the job requested, if it never started
	Grants  []Grant // the master's first

	Priority priority.Priority // at the start
	Tickets  tickets.Tickets

	// Waiting is the number of tasks of the job that never started, if this entry stands for them.
	// Reasons says why, as known to the last scheduling run.
	Waiting int
	Reasons []string
}

// Grant is a number of slots of a queue instance.
type Grant struct {
	Instance, Queue, Host string
	Slots                 int
}

// Refused is a job that the cell has refused.
type Refused struct {
	Line  int
	Trace int64
	User  string
	Text  string
}

// Result is the result of a simulation.
type Result struct {
	Tasks   []Task // by job and task
	Refused []Refused
	End     int64          // seconds after the start at which the simulation ended
	Runs    int            // of the scheduler
	Slots   map[string]int // of each cluster queue
	// Problems lists contradictions of the configuration, and decisions that could not be carried
	// out.
	Problems []error
}

// ErrNoQueues is the error for a configuration without queue instances.
var ErrNoQueues = errors.New("cannot simulate: no queue of the configuration has a host")

// Run simulates the jobs, which must be in the order of submission. It ends at the first error of
// the jobs.
func Run(cluster *qconf.Cluster, jobs iter.Seq2[workload.Job, error], o Options) (*Result, error) {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Until <= 0 {
		o.Until = math.MaxInt64 / 4
	}
	conf := cluster.Scheduler()
	s := &simulation{
		options: o, conf: conf, told: map[string]bool{}, known: map[uint32]*workload.Job{}, ordinary: map[uint32]*scheduler.Category{}, waiting: map[*scheduler.Category]int{}, now: o.Start,
		interval: max(int64(conf.ScheduleInterval/time.Second), 1), next: never, lastUsage: o.Start, lastStart: o.Start, lastChange: o.Start,
		shares: conf.WeightTicketsShare > 0 && cluster.ShareTree() != nil,
	}
	s.cell = cell.New(o.Start, cluster, cell.Options{Zone: o.Zone, Unexplained: true})
	if s.cell.Model().Instances() == 0 {
		return nil, ErrNoQueues
	}
	s.result.Problems = slices.Clone(s.cell.Problems())
	if s.off = conf.ScheduleInterval == 0; s.off {
		s.result.Problems = append(s.result.Problems, errors.New("schedule_interval is 0, which switches scheduling off (sched_conf(5)): no job starts"))
	}
	if err := s.reportLoad(); err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(jobs)
	defer stop()
	if err := s.run(next); err != nil {
		return nil, err
	}
	s.finish()
	return &s.result, nil
}

const never = math.MaxInt64

// simulation is the state of a running simulation. Its times are seconds since 1970.
type simulation struct {
	options  Options
	conf     *qconf.SchedulerConfig
	cell     *cell.Cell
	now      int64
	interval int64
	off      bool            // there are no scheduling runs
	next     int64           // the next scheduling run
	told     map[string]bool // problems already reported
	ends     ends
	known    map[uint32]*workload.Job // by the number of the job in the cell
	order    []uint32
	// ordinary are the pending jobs that only wait for free resources. waiting counts them by
	// category.
	ordinary map[uint32]*scheduler.Category
	waiting  map[*scheduler.Category]int
	running  int
	finished int
	shares   bool // usage of running tasks matters
	// lastUsage is the time of the last usage report.
	lastUsage  int64
	lastStart  int64
	lastChange int64 // time of the last submission, start or end
	runs       int   // number of scheduling runs until then
	result     Result
}

// usageInterval is the interval, in seconds, at which the usage of running tasks is reported.
const usageInterval = 600

// patience is the time, in seconds, that jobs may stay pending when no other event is left: each
// calendar has completed its cycle by then.
const patience = 400 * 24 * 3600

// progressEvents is the number of events between calls of Progress. With many pending jobs, an
// event can take a hundredth of a second.
const progressEvents = 1 << 7

func (s *simulation) run(pull func() (workload.Job, error, bool)) error {
	job, err, more := pull()
	if more && err != nil {
		return err
	}
	until := s.options.Start + s.options.Until
	for events := 0; ; events++ {
		at := min(s.next, s.ends.next())
		if more {
			at = min(at, s.options.Start+job.Submit)
		}
		if t, ok := s.cell.NextEvent(s.now); ok {
			at = min(at, t)
		}
		if at > until {
			if at != never {
				s.lastChange = until
			}
			return nil
		}
		if !more && s.running == 0 && (s.cell.Empty() || at-s.lastChange > patience) {
			return nil
		}
		s.now = max(s.now, at)
		if s.options.Progress != nil && events%progressEvents == 0 {
			s.options.Progress(s.progress())
		}
		switch {
		case s.ends.next() <= at:
			if err := s.end(heap.Pop(&s.ends).(end)); err != nil {
				return err
			}
		case more && s.options.Start+job.Submit <= at:
			s.submit(job)
			if job, err, more = pull(); more && err != nil {
				return err
			}
		case s.next <= at:
			s.schedule()
		default:
			s.follow(s.cell.Tick(s.now).Actions, nil)
			s.wake(s.now)
		}
	}
}

// change records that a job has changed.
func (s *simulation) change() { s.lastChange, s.runs = s.now, s.result.Runs }

func (s *simulation) progress() Progress {
	return Progress{
		Now: s.now - s.options.Start, Submitted: len(s.order), Running: s.running, Finished: s.finished, Runs: s.result.Runs,
	}
}

// wake requests a scheduling run at a time, or at the next interval after that.
func (s *simulation) wake(at int64) {
	since := at - s.options.Start
	regular := at
	if r := since % s.interval; r != 0 {
		regular = at + s.interval - r
	}
	s.runAt(regular)
}

// runAt requests a scheduling run at a time at the latest.
func (s *simulation) runAt(at int64) {
	if !s.off {
		s.next = min(s.next, at)
	}
}

// flush requests a scheduling run after a delay, if the configuration has one.
func (s *simulation) flush(after time.Duration) {
	if after > 0 {
		s.runAt(s.now + int64(after/time.Second))
	}
	s.wake(s.now)
}

func (s *simulation) submit(j workload.Job) {
	a, err := s.cell.Submit(s.now, cell.Caller{User: j.User, Group: j.Group}, j.Request)
	if err != nil {
		s.result.Refused = append(s.result.Refused, Refused{Line: j.Line, Trace: j.Number, User: j.User, Text: command.ErrorText(err)})
		return
	}
	s.known[a.ID] = &j
	s.change()
	s.order = append(s.order, a.ID)
	s.follow(a.Actions, nil)
	if j.Request.Immediate {
		s.runAt(s.now)
	}
	if s.hopeless(a.ID, &j) {
		return
	}
	s.flush(s.conf.FlushSubmit)
}

// hopeless reports whether a new job cannot start before another event: a similar job is pending
// that could not start in the last scheduling run, and nothing has happened since.
func (s *simulation) hopeless(id uint32, j *workload.Job) bool {
	r := j.Request
	if r.Array != nil || r.Hold || r.Immediate || r.Reservation != 0 || r.Reserve || r.TaskLimit > 0 || s.conf.MaxUJobs > 0 ||
		!r.Start.IsZero() || len(r.PrecedingJobs) > 0 {
		return false
	}
	category := s.cell.Job(id).Scheduled().Category
	s.waiting[category]++
	s.ordinary[id] = category
	return s.next == never && s.waiting[category] > 1
}

func (s *simulation) schedule() {
	s.next = never
	s.result.Runs++
	if s.shares && s.now-s.lastUsage >= usageInterval {
		s.reportUsage()
	}
	r := s.cell.Schedule(s.now)
	for _, p := range r.Problems {
		// A run may find the same problem as the previous one.
		if text := p.Error(); !s.told[text] {
			s.told[text] = true
			s.result.Problems = append(s.result.Problems, p)
		}
	}
	if len(r.Decisions.Starts) > 0 {
		s.lastStart = s.now
		s.change()
	}
	s.follow(r.Actions, r.Decisions)
	for _, i := range r.Immediate {
		if w := s.known[i.Job]; !i.Started && w != nil {
			stderr, stdout := command.ImmediateText(i)
			text := strings.Join(strings.Split(strings.TrimSpace(stderr+stdout), "\n"), " ")
			s.result.Refused = append(s.result.Refused, Refused{Line: w.Line, Trace: w.Number, User: w.User, Text: text})
		}
	}
	if s.cell.State().Pending() > 0 && (s.reopening(r.Decisions) || len(r.Decisions.Starts) > 0 && s.cell.Model().Subordinating()) {
		s.runAt(s.now + s.interval)
	}
}

// reopening reports whether a queue that load adjustments keep closed opens as time passes.
func (s *simulation) reopening(d *scheduler.Decisions) bool {
	return len(s.conf.JobLoadAdjustments) > 0 && s.now-s.lastStart <= int64(s.conf.LoadAdjustmentDecayTime/time.Second) && d.Overloaded()
}

// follow performs the actions for the execution hosts.
func (s *simulation) follow(actions []cell.Action, d *scheduler.Decisions) {
	starts := 0
	for _, a := range actions {
		t := a.Task
		switch a.Kind {
		case cell.StartTask:
			for d != nil && starts < len(d.Starts) && (d.Starts[starts].Job.ID != t.Job.ID() || d.Starts[starts].Task != t.Number) {
				starts++
			}
			var start *scheduler.Start
			if d != nil && starts < len(d.Starts) {
				start = &d.Starts[starts]
			}
			s.started(t, start)
		case cell.KillTask:
			if i := s.ends.find(t); i >= 0 {
				s.ends[i].at = s.now
				heap.Fix(&s.ends, i)
			}
		case cell.SuspendTask:
			s.suspend(t)
		case cell.ResumeTask:
			s.resume(t)
		}
	}
}

// started starts a task, and records it.
func (s *simulation) started(t *cell.Task, start *scheduler.Start) {
	id := t.Job.ID()
	if category := s.ordinary[id]; category != nil {
		if s.waiting[category]--; s.waiting[category] == 0 {
			delete(s.waiting, category)
		}
		delete(s.ordinary, id)
	}
	// The task has just been started, so it can be confirmed.
	_ = s.cell.TaskStarted(s.now, id, t.Number, t.Restarts)
	s.running++
	record := s.record(t.Job)
	record.Start, record.Slots = s.now-s.options.Start, t.Running().Slots()
	if t.Job.IsArray() {
		record.Number = t.Number
	}
	m := s.cell.Model()
	if t.Running().PE != scheduler.None {
		record.PE = m.PEName(t.Running().PE)
	}
	for _, g := range t.Running().Grants {
		settings := m.Settings(g.Instance)
		record.Grants = append(record.Grants, Grant{
			Instance: m.InstanceName(g.Instance), Queue: settings.Queue, Host: m.HostName(m.HostOf(g.Instance)), Slots: g.Slots,
		})
	}
	if start != nil {
		record.Priority, record.Tickets = start.Priority, start.Tickets
	}
	s.result.Tasks = append(s.result.Tasks, record)
	e := end{job: id, task: t.Number, attempt: t.Restarts, record: len(s.result.Tasks) - 1, started: s.now}
	lasts := s.known[id].Run
	if limit := t.Running().Limit; limit > 0 && (lasts == workload.Endless || limit < lasts) {
		lasts = limit
	}
	if e.at = never; lasts != workload.Endless {
		e.at = s.now + lasts
	}
	if t.Suspended() {
		e.left, e.at = e.at-s.now, never
	}
	heap.Push(&s.ends, e)
}

// record returns the result of a job that has not started.
func (s *simulation) record(j *cell.Job) Task {
	w := s.known[j.ID()]
	return Task{
		Job: j.ID(), Line: w.Line, Trace: w.Number, Name: j.Name(), User: j.Owner(), Project: j.Project,
		Submit: j.Submitted() - s.options.Start, Start: -1, End: -1,
	}
}

// end ends a task.
func (s *simulation) end(e end) error {
	j := s.cell.Job(e.job)
	if j == nil {
		return nil
	}
	record := &s.result.Tasks[e.record]
	ran := s.now - e.started
	var used tickets.Amounts
	used[tickets.CPU] = float64(ran) * float64(record.Slots)
	a, err := s.cell.TaskEnded(s.now, e.job, e.task, e.attempt, cell.End{Used: used})
	if err != nil {
		// It has been killed before.
		return nil //nolint:nilerr // what is gone needs no end
	}
	record.End = s.now - s.options.Start
	s.change()
	s.running--
	s.finished++
	s.follow(a.Actions, nil)
	if s.cell.Job(e.job) == nil {
		delete(s.known, e.job)
	}
	// Without pending jobs, a run decides nothing.
	if s.shares || s.cell.State().Pending() > 0 {
		s.flush(s.conf.FlushFinish)
	}
	return nil
}

// reportUsage reports the usage of running tasks so far.
func (s *simulation) reportUsage() {
	s.lastUsage = s.now
	for i := range s.ends {
		e := &s.ends[i]
		var used tickets.Amounts
		used[tickets.CPU] = float64(s.now-e.started) * float64(s.result.Tasks[e.record].Slots)
		// A task that was killed has no usage to report.
		_ = s.cell.UsageReport(s.now, e.job, e.task, used)
	}
}

// suspend stops the run time of a task.
func (s *simulation) suspend(t *cell.Task) {
	if i := s.ends.find(t); i >= 0 && s.ends[i].at != never {
		s.ends[i].left, s.ends[i].at = s.ends[i].at-s.now, never
		heap.Fix(&s.ends, i)
	}
}

// resume continues it.
func (s *simulation) resume(t *cell.Task) {
	if i := s.ends.find(t); i >= 0 && s.ends[i].left > 0 {
		s.ends[i].at, s.ends[i].left = s.now+s.ends[i].left, 0
		heap.Fix(&s.ends, i)
	}
}

// reportLoad makes all hosts report their load.
func (s *simulation) reportLoad() error {
	m := s.cell.Model()
	// Two names mean the same host if they are equal up to the first dot.
	named := map[string][]string{}
	for _, host := range slices.Sorted(maps.Keys(s.options.Load)) {
		named[qconf.ShortName(strings.ToLower(host))] = append(named[qconf.ShortName(strings.ToLower(host))], host)
	}
	for i := range m.Hosts() {
		id := scheduler.HostID(i)
		processors := 1
		for _, q := range m.InstancesOn(id) {
			processors = max(processors, m.Settings(q).Slots)
		}
		values := map[string]string{"num_proc": strconv.Itoa(processors), "arch": "lx-amd64"}
		for _, name := range []string{"load_short", "load_medium", "load_long", "load_avg", "np_load_short", "np_load_medium", "np_load_long", "np_load_avg", "cpu"} {
			values[name] = "0"
		}
		for _, host := range named[qconf.ShortName(strings.ToLower(m.HostName(id)))] {
			if qconf.SameHost(host, m.HostName(id)) {
				maps.Copy(values, s.options.Load[host])
			}
		}
		if _, err := s.cell.HostReport(s.now, m.HostName(id), values); err != nil {
			return err
		}
		s.result.Problems = append(s.result.Problems, s.cell.State().Problems(id)...)
	}
	if more := s.options.Load[qconf.GlobalHost]; more != nil {
		if _, err := s.cell.HostReport(s.now, qconf.GlobalHost, more); err != nil {
			return err
		}
	}
	return nil
}

// finish records the jobs that have not started, and sorts the result.
func (s *simulation) finish() {
	s.result.End, s.result.Runs = s.lastChange-s.options.Start, s.runs
	m := s.cell.Model()
	s.result.Slots = map[string]int{}
	for i := range m.Instances() {
		settings := m.Settings(scheduler.InstanceID(i))
		s.result.Slots[settings.Queue] += settings.Slots
	}
	left := s.cell.Jobs()
	if len(left) > 0 {
		s.cell.Explain(s.now)
	}
	for _, j := range left {
		waiting := j.Waiting.Len()
		for _, t := range j.Tasks() {
			if t.Running() == nil {
				waiting++
			}
		}
		if waiting == 0 {
			continue
		}
		record := s.record(j)
		record.Waiting = waiting
		record.Slots = j.Scheduled().Category.AssumedSlots()
		if d := s.cell.Decisions(); d != nil {
			reasons := d.Reasons(j.Scheduled())
			for i := range reasons {
				record.Reasons = append(record.Reasons, reasons[i].Text())
			}
		}
		s.result.Tasks = append(s.result.Tasks, record)
	}
	slices.SortStableFunc(s.result.Tasks, func(a, b Task) int {
		switch {
		case a.Job != b.Job:
			return int(a.Job) - int(b.Job)
		case (a.Waiting > 0) != (b.Waiting > 0):
			if a.Waiting > 0 {
				return 1
			}
			return -1
		case a.Number != b.Number:
			return int(a.Number) - int(b.Number)
		}
		return strings.Compare(a.Name, b.Name)
	})
}
