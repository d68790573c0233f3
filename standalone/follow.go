package standalone

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/scheduler"
)

// run is a start of a task that has not ended.
type run struct {
	key       string
	id        job.ID // the ID that the agent uses
	job, task uint32 // the numbers that the cell uses
	attempt   int
	owner     string
	size      int64 // in bytes: the agent's copy of the request while the task exists
	counted   bool  // the size is counted for the owner
	taken     bool  // by the agent
}

// runOf names a start of a task. The agent takes starts with the same key for the same one.
func (m *Master) runOf(t *cell.Task, attempt int) *run {
	r := &run{job: t.Job.ID(), task: t.Number, attempt: attempt, id: job.ID{Job: int(t.Job.ID())}, owner: t.Job.Owner(), size: t.Job.RequestSize()}
	if t.Job.IsArray() {
		r.id.Task = int(t.Number)
	}
	r.key = fmt.Sprintf("%s-%d.%d.%d", m.id, r.job, r.task, r.attempt)
	return r
}

// parseKey returns the start that a key of this cell names.
func (m *Master) parseKey(key string) (job, task uint32, attempt int, ok bool) {
	text, ok := strings.CutPrefix(key, m.id+"-")
	parts := strings.Split(text, ".")
	if !ok || len(parts) != 3 {
		return 0, 0, 0, false
	}
	var n [3]uint64
	for i, p := range parts {
		var err error
		if n[i], err = strconv.ParseUint(p, 10, 32); err != nil {
			return 0, 0, 0, false
		}
	}
	return uint32(n[0]), uint32(n[1]), int(n[2]), true
}

// follow records actions for the agent, which gets them after the next commit.
func (m *Master) follow(actions []cell.Action) {
	m.batch.actions = append(m.batch.actions, actions...)
	for i := range actions {
		if a := &actions[i]; a.Kind == cell.StartTask {
			// The start is built now, because the next event may change the task.
			r := m.runOf(a.Task, a.Attempt)
			m.runs[r.key] = r
			m.batch.starts = append(m.batch.starts, m.start(r, a.Task))
		}
	}
}

// act tells the agent.
func (m *Master) act(actions []cell.Action, starts []starting) {
	for _, a := range actions {
		r := m.runOf(a.Task, a.Attempt)
		if known := m.runs[r.key]; known != nil {
			r = known
		}
		switch a.Kind {
		case cell.StartTask:
			m.push(r, starts[0])
			starts = starts[1:]
		case cell.SuspendTask:
			m.signal(r, agent.Suspend)
		case cell.ResumeTask:
			m.signal(r, agent.Resume)
		case cell.KillTask:
			m.deleted.Store(r.id, a.Task.DeletedBy)
			m.signal(r, agent.Terminate)
		case cell.RescheduleTask:
			m.signal(r, agent.Reschedule)
		}
	}
}

// start returns the agent's order to start a task.
func (m *Master) start(r *run, t *cell.Task) starting {
	j, model := t.Job, m.cell.Model()
	request := m.cell.StartRequest(j)
	s := &agent.Start{
		ID: r.id, Key: r.key, Owner: j.Owner(), Group: j.Group, Department: m.cell.Department(j.Owner(), j.Group),
		Request: request, Submitted: time.Unix(j.Submitted(), 0), Tickets: t.Tickets.Total, Reservation: request.Reservation,
		Interactive: m.terminals[j.ID()], Submission: j.Submission,
	}
	if o := j.Origin; o != nil {
		s.SubmitEnv, s.SubmitDir = o.Environment, o.Directory
	}
	if t.Again() {
		s.Restarted = job.RestartedJob
	}
	if c, ok := m.checkpoints[checkpointKey(r.job, r.task)]; ok {
		s.Restarted, s.CheckpointPID = c.Restart, c.PID
	}
	on := t.Running()
	if on.PE != scheduler.None {
		s.PE = model.PEName(on.PE)
	}
	for i := range on.Grants {
		g := &on.Grants[i]
		s.Grants = append(s.Grants, agent.Grant{
			Queue: model.Settings(g.Instance).Queue, Host: model.HostName(model.HostOf(g.Instance)), Slots: g.Slots, Names: model.Names(g),
		})
	}
	script, _ := j.SeparateScript()
	return starting{s, script}
}

// push queues a start for the agent.
func (m *Master) push(r *run, s starting) {
	if err := m.noRoomToStart(r); err != nil {
		m.orders.add(m, r.key, func(context.Context) error { return err }, func(err error) { m.started(r, err) })
		return
	}
	r.counted = true
	m.orders.add(m, r.key, func(ctx context.Context) error {
		for end, pause := m.clock.Now().Add(removing), removingPause; ; pause = min(2*pause, mostRemovingPause) {
			// Whether a job was taken has to be known, also when this master ends.
			err := m.scripts.start(context.WithoutCancel(ctx), m.commands, s)
			refusal, ok := errors.AsType[*agent.Error](err)
			if !ok || refusal.Code != agent.AlreadyExists || m.clock.Now().After(end) {
				return err
			}
			if !clock.Wait(ctx, m.clock, pause) {
				return err
			}
		}
	}, func(err error) { m.started(r, err) })
}

// When a task is restarted, the agent may still be removing its previous run, usually for
// milliseconds. The master repeats the order for this time, after growing pauses.
const (
	removing          = 10 * time.Second
	removingPause     = 20 * time.Millisecond
	mostRemovingPause = 2 * time.Second
)

// started handles the agent's answer to a start.
func (m *Master) started(r *run, err error) {
	switch {
	case m.runs[r.key] != r: // it has already ended
	case err == nil:
		r.taken = true
		if err := m.cell.TaskStarted(m.now(), r.job, r.task, r.attempt); err != nil {
			m.log.Warn("a task that was started is not expected", "error", err)
		}
		m.ends.started(r.job)
		m.event(r.job, r.task, "started")
	default:
		if !m.refusedBefore(r, err.Error()) {
			m.log.Warn("the agent refused a job", "job", r.id.String(), "error", err)
		}
		e := cell.End{Failure: cell.Refused, Reason: err.Error()}
		if refusal, ok := errors.AsType[*agent.Error](err); ok && !passing[refusal.Code] {
			e.Failure = cell.JobFailure
			if e.Once = m.terminals[r.job] != nil; e.Once {
				m.ends.add(r, &job.Outcome{Reason: e.Reason})
			}
		}
		m.pace.postpone(m.clock.Now(), refusalPause)
		m.taskEnded(r, e)
		if m.inError(r.job, r.task) {
			submitted := time.Unix(m.cell.Job(r.job).Submitted(), 0)
			m.feeds.ended(r.owner, r, submitted, true, &job.Outcome{Reason: err.Error()})
			m.messageEnded(m.describe(r.job), nil, r.task, true, &job.Outcome{Reason: err.Error()})
		}
	}
}

// refusedBefore reports whether the start before this one was refused for the same reason, which
// the log has already.
func (m *Master) refusedBefore(r *run, reason string) bool {
	j := m.cell.Job(r.job)
	if j == nil || j.Task(r.task) == nil {
		return false
	}
	return j.Task(r.task).RefusedFor(reason)
}

// passing are the temporary refusals: the agent may accept the same start later. After any other
// refusal the job stays in error state until a user clears it.
var passing = map[agent.Code]bool{agent.Unavailable: true, agent.ResourceExhausted: true, agent.FailedPrecondition: true, agent.AlreadyExists: true}

// signal passes an order for an accepted task to the agent.
func (m *Master) signal(r *run, o agent.Order) {
	m.orders.add(m, r.key, func(ctx context.Context) error {
		if there, ok := m.commands.Job(r.id); !ok || there.Key != r.key {
			return nil // this start of it has ended
		}
		err := m.commands.Signal(ctx, r.id, o)
		if refusal, ok := errors.AsType[*agent.Error](err); ok && (refusal.Code == agent.NotFound || refusal.Code == agent.FailedPrecondition) {
			return nil // it has ended, which is reported
		}
		return err
	}, func(err error) {
		if err != nil && m.context.Err() == nil {
			m.log.Error("cannot give an order to a job", "job", r.id.String(), "order", string(o), "error", err)
		}
	})
}

// DeletedBy returns USER@HOST of the qdel that ends a job; empty if none does. It may be called by any
// goroutine, until the master has handled the report of the job's end.
func (m *Master) DeletedBy(id job.ID) string {
	who, _ := m.deleted.Load(id)
	by, _ := who.(string)
	return by
}

// giveTickets tells the agent to share the processors by the tickets of running tasks (sge_conf(5),
// reprioritize).
func (m *Master) giveTickets(d *scheduler.Decisions) {
	if !m.cell.Cluster().Config(m.host.Name).Reprioritize {
		return
	}
	var list []agent.Tickets
	for _, r := range m.runs {
		j := m.cell.Job(r.job)
		if j == nil {
			continue
		}
		if t := j.Task(r.task); t != nil && t.Running() != nil {
			_, tickets := d.OfRunning(t.Running())
			list = append(list, agent.Tickets{ID: r.id, Tickets: tickets.Total})
		}
	}
	if len(list) > 0 {
		m.commands.SetTickets(list)
	}
}

// agentCalls are the pending calls to the agent. The calls for one start are made one after
// another; calls for different starts do not wait for each other.
type agentCalls struct {
	queues  map[string][]agentCall // the first of each is on its way
	workers sync.WaitGroup
}

type agentCall struct {
	call func(context.Context) error
	then func(error) // in the goroutine of Run
}

func (o *agentCalls) add(m *Master, key string, call func(context.Context) error, then func(error)) {
	if o.queues == nil {
		o.queues = map[string][]agentCall{}
	}
	o.queues[key] = append(o.queues[key], agentCall{call, then})
	if len(o.queues[key]) == 1 {
		o.send(m, key)
	}
}

// send gives the first order of a queue.
func (o *agentCalls) send(m *Master, key string) {
	first := o.queues[key][0]
	o.workers.Go(func() {
		err := first.call(m.context)
		// When Run ends, the answer does not matter: the next daemon asks again.
		_ = m.do(m.context, func() {
			if m.context.Err() != nil {
				return // it may speak of our end, and not of the job
			}
			first.then(err)
			if o.queues[key] = o.queues[key][1:]; len(o.queues[key]) == 0 {
				delete(o.queues, key)
				return
			}
			o.send(m, key)
		})
	})
}

// wait waits until nothing is on its way any more.
func (o *agentCalls) wait() { o.workers.Wait() }
