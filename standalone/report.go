package standalone

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/standalone/api"
)

// resume reconciles the running tasks of the store with the jobs of the agent, and begins to
// receive reports.
func (m *Master) resume() {
	if m.reports != nil {
		m.reports()
	}
	ctx, cancel := context.WithCancel(m.context)
	m.reports = cancel
	there := map[string]agent.JobReport{}
	for _, r := range m.commands.Jobs() {
		there[r.Key] = r
	}
	clear(m.runs)
	for _, j := range m.cell.Jobs() {
		if j.Sync() || m.terminals[j.ID()] != nil { // waiting clients ask again
			m.ends.watch(j.ID(), j.Owner())
		}
		for _, t := range j.Tasks() {
			if t.Running() != nil {
				m.resumeTask(t, there)
			}
		}
	}
	pause := time.Duration(0)
	if m.broken != nil {
		pause = refusalPause // its reports can hardly be written now
	}
	m.orders.workers.Go(func() {
		if clock.Wait(ctx, m.clock, pause) {
			m.takeReports(ctx)
		}
	})
}

// resumeTask continues with a task that is running according to the cell.
func (m *Master) resumeTask(t *cell.Task, there map[string]agent.JobReport) {
	r := m.runOf(t, t.Restarts)
	m.runs[r.key] = r
	report, known := there[r.key]
	r.counted, r.taken = known, known
	switch {
	case !known && t.Phase == cell.Transferring && !t.Deleted:
		m.batch.actions = append(m.batch.actions, cell.Action{Kind: cell.StartTask, Task: t, Attempt: t.Restarts})
		m.batch.starts = append(m.batch.starts, m.start(r, t))
		if t.Suspended() {
			m.batch.actions = append(m.batch.actions, cell.Action{Kind: cell.SuspendTask, Task: t, Attempt: t.Restarts})
		}
	case !known && t.Deleted:
		m.taskEnded(r, cell.End{})
	case !known:
		m.log.Error("the agent does not know a job that ran here", "job", r.id.String())
		m.taskEnded(r, cell.End{Failure: cell.JobFailure, Reason: "what became of the job is not known: this host has no trace of it"})
	case t.Deleted:
		m.deleted.Store(r.id, t.DeletedBy)
		m.signal(r, agent.Terminate)
	case t.Suspended() && !slices.Contains(report.SuspendedBy, agent.Suspend):
		m.signal(r, agent.Suspend)
	case !t.Suspended() && slices.Contains(report.SuspendedBy, agent.Suspend):
		m.signal(r, agent.Resume)
	}
}

// takeReports passes the agent's reports on.
func (m *Master) takeReports(ctx context.Context) {
	after := uint64(0)
	for ctx.Err() == nil {
		batch, err := m.commands.Reports(ctx, after)
		if err != nil {
			if ctx.Err() == nil {
				m.log.Error("cannot get the reports of the agent", "error", err)
			}
			return
		}
		after = batch.Number
		done := make(chan struct{})
		if m.do(ctx, func() {
			defer close(done)
			if ctx.Err() == nil {
				m.report(&batch)
			}
		}) != nil {
			return
		}
		<-done
	}
}

// report handles a batch of the agent's reports.
func (m *Master) report(b *agent.Batch) {
	if b.Configuration != "" && b.Configuration != m.version {
		m.version = b.Configuration
		m.reconfigure()
	}
	if b.Load != nil {
		m.load(b.Load)
		m.sample()
	}
	if b.Service != nil {
		m.service(b.Service)
	}
	for i := range b.Jobs {
		m.jobReport(&b.Jobs[i])
	}
}

// reconfigure passes the configuration that the agent uses to the cell.
func (m *Master) reconfigure() {
	before := m.cell.Cluster().Global().JSVURL
	defer func() {
		if m.cell.Cluster().Global().JSVURL != before {
			m.verifier.Retire()
		}
	}()
	a, err := m.cell.Reconfigure(m.now(), m.host.Cluster())
	if err != nil {
		m.log.Error("the configuration cannot be used, and the previous one stays in use", "error", err)
		return
	}
	for _, p := range m.cell.Problems() {
		m.log.Warn("a part of the configuration is ignored", "error", p)
	}
	m.follow(a.Actions)
	for host := range m.loads {
		m.loaded(host)
	}
	m.pace.demand()
}

// load stores load values. Most reports only have the changed values, but the cell needs all values
// of a host.
func (m *Master) load(l *agent.LoadReport) {
	changed := map[string]bool{}
	if l.Full {
		for host := range m.loads {
			changed[host] = true
		}
		clear(m.loads)
	}
	for _, k := range l.Removed {
		delete(m.loads[k.Host], k.Name)
		changed[k.Host] = true
	}
	for _, v := range l.Values {
		if m.loads[v.Host] == nil {
			m.loads[v.Host] = map[string]string{}
		}
		m.loads[v.Host][v.Name] = v.Text
		changed[v.Host] = true
	}
	for host := range changed {
		m.loaded(host)
	}
	m.pace.demand()
}

// loaded passes the load values of a host to the cell. Load sensors may report hosts that do not
// belong to the cell.
func (m *Master) loaded(host string) {
	if _, ok := m.cell.Model().Host(host); !ok {
		return
	}
	a, err := m.cell.HostReport(m.now(), host, maps.Clone(m.loads[host]))
	if err != nil {
		m.log.Warn("load values are rejected", "host", host, "error", err)
		return
	}
	m.follow(a.Actions)
}

// service puts the queue instances of this host into the error state while the host takes no jobs.
func (m *Master) service(s *agent.ServiceReport) {
	a, err := m.cell.HostService(m.now(), m.host.Name, s.Draining)
	if err != nil {
		m.log.Warn("the cell does not know whether the host takes jobs", "error", err)
		return
	}
	m.refusing = s.Draining != ""
	m.follow(a.Actions)
	m.pace.demand()
}

// jobReport handles the agent's report of a job.
func (m *Master) jobReport(r *agent.JobReport) {
	number, task, attempt, ours := m.parseKey(r.Key)
	switch {
	case r.ID.PETask != "": // only the job counts, but the agent stores tasks until their ends are acknowledged
		if r.State.Over() && r.Outcome != nil {
			m.batch.acknowledge(r, false)
		}
		return
	case !ours:
		m.foreignReport(r)
		return
	}
	known := m.runs[r.Key]
	switch {
	case r.State.Over() && r.Outcome != nil:
		m.batch.acknowledge(r, m.terminals[number] != nil)
		if known == nil {
			known = &run{key: r.Key, id: r.ID, job: number, task: task, attempt: attempt}
		}
		about := m.describe(number)
		m.keepCheckpoint(known, r.Outcome)
		m.taskEnded(known, m.end(known, r.Outcome))
		gone := !m.there(number, task) // otherwise it is restarted, or pending in error state
		if gone {
			m.ends.add(known, r.Outcome)
		}
		if gone || m.inError(number, task) {
			m.feeds.ended(r.Owner, known, r.Submitted, !gone, r.Outcome)
			m.messageEnded(about, r, task, !gone, r.Outcome)
		}
	case known == nil:
		m.log.Warn("ending a job that is not in the queue any more", "job", r.ID.String())
		m.signal(&run{key: r.Key, id: r.ID, job: number, task: task, attempt: attempt}, agent.Kill)
	default:
		if r.State != agent.Received {
			// A task that was already reported as started is not news.
			_ = m.cell.TaskStarted(m.now(), number, task, attempt)
		}
		m.messageRuns(number, r.Started)
		used := tickets.Amounts{tickets.CPU: r.Usage.CPU, tickets.Mem: r.Usage.Mem, tickets.IO: r.Usage.IO}
		if err := m.cell.UsageReport(m.now(), number, task, used); err != nil {
			m.log.Debug("usage is rejected", "error", err)
			return
		}
		// The task is there.
		live := cell.Live{Vmem: r.Usage.Vmem, MaxVmem: r.Usage.MaxVmem, IOWait: r.Usage.IOWait, Refused: r.Usage.Refused}
		if g := r.GPU; g != nil {
			live.GPU, live.IdleGPUs = g.GPUUsage, slices.Sorted(maps.Keys(g.Idle))
		}
		_ = m.cell.LiveReport(number, task, live)
	}
}

// foreignReport handles the report of a job that another master has started on this host. If the
// job belongs to an earlier cell of this spool area, whose store was removed, no master can control
// it any more, so it is ended. Other jobs are left alone.
func (m *Master) foreignReport(r *agent.JobReport) {
	ended := r.State.Over() && r.Outcome != nil
	switch former := formerKey().MatchString(r.Key); {
	case former && ended:
		m.log.Warn("a job of a previous queue has finished", "job", r.ID.String(), "owner", r.Owner)
		m.batch.acknowledge(r, false)
	case former && !m.foreign[r.Key]:
		m.log.Warn("ending a job of a previous queue: it is not in the current queue", "job", r.ID.String(), "owner", r.Owner)
		m.signal(&run{key: r.Key, id: r.ID}, agent.Kill)
	case !former && !m.foreign[r.Key]:
		m.log.Warn("ignoring a job of another master", "job", r.ID.String(), "owner", r.Owner)
	}
	if m.foreign[r.Key] = true; ended {
		delete(m.foreign, r.Key)
	}
}

// formerKey are the keys that runOf makes, of any cell.
var formerKey = lazyregexp.New(`^[a-z2-7]{8}-[0-9]+\.[0-9]+\.[0-9]+$`)

// there reports whether the cell still has a task.
func (m *Master) there(job, task uint32) bool {
	j := m.cell.Job(job)
	return j != nil && j.Task(task) != nil
}

// inError reports whether the cell has a task in error state.
func (m *Master) inError(job, task uint32) bool {
	return m.there(job, task) && m.cell.Job(job).Task(task).Error != ""
}

// taskEnded tells the cell that a start is over.
func (m *Master) taskEnded(r *run, e cell.End) {
	delete(m.runs, r.key)
	m.deleted.Delete(r.id)
	a, err := m.cell.TaskEnded(m.now(), r.job, r.task, r.attempt, e)
	if err != nil {
		m.log.Debug("a task finished that is not in the queue any more", "job", r.id.String(), "error", err)
	} else {
		m.follow(a.Actions)
	}
	if m.cell.Job(r.job) == nil {
		m.forgetCheckpoints(r.job)
	}
	m.pace.demand()
}

// end converts an outcome for the cell: it adds whether the job, the queue or the host caused a
// failure, and whether the task has to be restarted (sge_status(5)).
func (m *Master) end(r *run, o *job.Outcome) cell.End {
	e := cell.End{
		ExitStatus: o.ExitStatus, Reason: o.Reason,
		Requeued: o.Failed == job.FailedReschedule,
		Unbegun:  o.Effect == job.Requeued && (!o.Ran || o.Class == job.ClassQueue || o.Class == job.ClassHost),
		Used:     tickets.Amounts{tickets.CPU: o.Usage.CPU, tickets.Mem: o.Usage.Mem, tickets.IO: o.Usage.IO},
	}
	if e.Reason == "" {
		e.Reason = o.FailedText
	}
	e.Reason, e.Record = told(e.Reason, o.Notice), o.Because()
	switch {
	case o.Class == job.ClassJob:
		e.Failure = cell.JobFailure
	case o.Class == job.ClassQueue:
		e.Failure = cell.QueueFailure
	case o.Class == job.ClassQueueFinished:
		e.Failure = cell.QueueFinished
	case o.Class == job.ClassHost:
		e.Failure = cell.HostFailure
	case o.Restart != job.FirstRun || o.Effect == job.Requeued || o.Effect == job.Restarts || o.Effect == job.IfRerunnable && m.cell.Rerunnable(r.job, r.task):
		e.Failure = cell.NobodysFailure
	}
	// An interactive job is never run again (sge_status(5)).
	if e.Once = m.terminals[r.job] != nil; e.Once && o.Ran {
		e.Failure = cell.NoFailure
	}
	return e
}

// told joins a reason and a notice.
func told(reason, notice string) string {
	if reason == "" || notice == "" {
		return reason + notice
	}
	return reason + "; " + notice
}

// ends holds the ends of tasks of the jobs for which clients wait.
type ends struct {
	jobs map[uint32]*ended
}

type ended struct {
	owner   string
	list    []api.End
	gone    bool
	changed chan struct{} // closed with the next change
	until   time.Time     // for a job that has left the queue: when the entry expires
}

// keepEnds is the time for which the end of a job is stored for clients.
const keepEnds = time.Hour

func newEnds() ends { return ends{jobs: map[uint32]*ended{}} }

// watch begins to record the ends of the tasks of a job.
func (e *ends) watch(job uint32, owner string) *ended {
	if e.jobs[job] == nil {
		e.jobs[job] = &ended{owner: owner, changed: make(chan struct{})}
	}
	return e.jobs[job]
}

func (e *ends) add(r *run, o *job.Outcome) {
	if j := e.jobs[r.job]; j != nil {
		j.list = append(j.list, api.End{
			Task: uint32(r.id.Task), Ran: o.Ran, ExitStatus: o.ExitStatus, Signal: o.Signal, Failed: int(o.Failed), Reason: told(o.Reason, o.Notice),
		})
		j.wake()
	}
}

// started wakes the callers that wait for the start of a job.
func (e *ends) started(job uint32) {
	if j := e.jobs[job]; j != nil {
		j.wake()
	}
}

// sweep reports the jobs that have left the queue for any reason, and removes expired entries.
func (e *ends) sweep(c *cell.Cell, now time.Time) {
	for id, j := range e.jobs {
		switch {
		case !j.gone && c.Job(id) == nil:
			j.gone, j.until = true, now.Add(keepEnds)
			j.wake()
		case j.gone && now.After(j.until):
			delete(e.jobs, id)
		}
	}
}

func (j *ended) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

var errUnknownJob = errors.New("there is no such job, or no client asked for its end before it left")
