package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
)

// master is the state of a cluster. The cell decides; the master carries out its decisions (follow),
// and tells the cell what has happened. One goroutine does all this. It handles events one after
// another, so no locks are needed.
type master struct {
	cell    *cell.Cell
	by      cell.Caller
	ledger  *ledger
	epoch   uint64
	agents  map[string]*agent      // by host
	jobs    map[uint32]*submission // by number
	running map[string]*attempt    // starts that have not ended, by key
	parts   map[part]bool          // of jobs on other hosts than their first, that have not ended

	ctx      context.Context //nolint:containedctx // the life of the master
	events   chan func()
	complete bool  // no more commands come
	err      error // why the master ends
}

// submission is the command line and the script of a job: agents read it as the cell did.
type submission struct {
	command   []string
	script    string
	directory string
	environ   map[string]string
	tasks     string          // program that runs in each slot of it; empty for none
	ran       map[uint32]bool // tasks that have run before
}

// attempt is one start of a task. Its first host has the master task.
type attempt struct {
	cell.Action
	id      api.ID
	key     string
	hosts   []*agent
	slots   map[*agent]int // on each of them
	missing int            // hosts that have not taken it, before the first one gets it
	begun   bool           // the master task runs, and its tasks have been started
}

// do runs event in the goroutine of the master, and waits until it has returned.
func (m *master) do(event func()) {
	done := make(chan struct{})
	select {
	case m.events <- func() { event(); close(done) }:
		<-done
	case <-m.ctx.Done():
	}
}

// run handles events until the last job has left, and starts a scheduling run at each interval.
func (m *master) run(interval time.Duration) error {
	ticker := time.NewTicker(max(interval, time.Second))
	defer ticker.Stop()
	for m.err == nil && !m.finished() {
		select {
		case event := <-m.events:
			event()
		case <-ticker.C:
			m.schedule()
		case <-m.ctx.Done():
			return nil
		}
	}
	return m.err
}

// finished reports whether there are no more jobs, and no orders to send.
func (m *master) finished() bool {
	for _, a := range m.agents {
		if a.busy || a.lost {
			return false
		}
	}
	return m.complete && m.cell.Empty() && len(m.parts) == 0
}

// schedule makes one scheduling run.
func (m *master) schedule() {
	r := m.cell.Schedule(m.now())
	for _, p := range r.Problems {
		m.say("%v", p)
	}
	m.act(r.Actions)
}

// command carries out a line of qsub, qdel or qmod.
func (m *master) command(line string) {
	words, err := workload.Words(line)
	if err == nil && len(words) > 0 {
		switch words[0] {
		case "qsub":
			err = m.qsub(words[1:])
		case "qdel":
			err = m.qdel(words[1:])
		case "qmod":
			err = m.qmod(words[1:])
		default:
			err = fmt.Errorf("%q is neither qsub nor qdel nor qmod", words[0])
		}
	}
	if err != nil {
		m.say("%s: %v", line, err)
	}
}

func (m *master) qsub(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	s := &submission{command: args, directory: dir, environ: map[string]string{}, ran: map[uint32]bool{}}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		s.environ[name] = value
	}
	request, err := submit.Parse(submit.Input{
		Args: args, Env: os.Environ(), Cwd: dir, Master: true,
		ReadFile: func(path string) ([]byte, error) {
			text, err := os.ReadFile(path)
			s.script = string(text)
			return text, err
		},
		ReadStdin: func() ([]byte, error) { return nil, errors.New("name a script, or give a command with -b y") },
	})
	if err != nil {
		return err
	}
	answer, err := m.cell.Submit(m.now(), m.by, request)
	if err != nil {
		return err
	}
	s.tasks = tasksOf(request)
	m.jobs[answer.ID] = s
	m.follow(answer, nil)
	return nil
}

func (m *master) qdel(args []string) error {
	jobs, err := submit.ParseJobRanges(args)
	if err != nil {
		return err
	}
	m.follow(m.cell.Delete(m.now(), m.by, cell.DeleteRequest{Jobs: jobs}), nil)
	return nil
}

func (m *master) qmod(args []string) error {
	operations := map[string]cell.JobOperation{
		"-sj": cell.SuspendJob, "-usj": cell.UnsuspendJob, "-cj": cell.ClearJobError, "-rj": cell.RescheduleJob,
	}
	if len(args) == 0 {
		return errors.New("expected -sj, -usj, -cj or -rj")
	}
	operation, ok := operations[args[0]]
	if !ok {
		return fmt.Errorf("%q, expected -sj, -usj, -cj or -rj", args[0])
	}
	jobs, err := submit.ParseJobRanges(args[1:])
	if err != nil {
		return err
	}
	m.follow(m.cell.ModifyJobs(m.now(), m.by, operation, jobs, false), nil)
	return nil
}

// follow prints the answer of the cell, and carries out its actions. Its arguments are the results of
// most methods of the cell.
func (m *master) follow(a *cell.Answer, err error) {
	if err != nil {
		m.say("%s", command.ErrorText(err))
		return
	}
	for _, e := range a.Events {
		m.say("%s", command.EventText(e))
	}
	m.act(a.Actions)
}

// act passes the cell's decisions to the agents.
func (m *master) act(actions []cell.Action) {
	for _, a := range actions {
		switch a.Kind {
		case cell.StartTask:
			m.start(a)
		case cell.SuspendTask:
			m.order(a, api.Suspend)
		case cell.ResumeTask:
			m.order(a, api.Resume)
		case cell.KillTask:
			m.order(a, api.Terminate)
		case cell.RescheduleTask:
			m.order(a, api.Reschedule)
		}
	}
}

// key returns the key of a start. An agent starts a job only once for each key, however often the
// start is sent.
func (m *master) key(a cell.Action) string {
	return fmt.Sprintf("%d.%d.%d.%d", m.epoch, a.Task.Job.ID(), a.Task.Number, a.Attempt)
}

// start sends a task to the hosts on which it has slots. The first host gets the master task; on the
// others run only the tasks of a parallel job.
func (m *master) start(a cell.Action) {
	j, model := a.Task.Job, m.cell.Model()
	t := &attempt{Action: a, id: api.ID{Job: int(j.ID())}, key: m.key(a), slots: map[*agent]int{}}
	if j.IsArray() {
		t.id.Task = int(a.Task.Number)
	}
	s := m.jobs[j.ID()]
	start := api.Start{
		Job: t.id.Job, Task: t.id.Task, Key: t.key, Owner: j.Owner(), Group: j.Group,
		Command: s.command, Script: s.script, Environment: s.environ, Directory: s.directory,
		Submitted: time.Unix(j.Submitted(), 0), Tickets: a.Task.Tickets.Total,
	}
	if s.ran[a.Task.Number] {
		start.Restarted = 1
	}
	r := a.Task.Running()
	if r.PE != scheduler.None {
		start.PE = model.PEName(r.PE)
	}
	for i := range r.Grants {
		g := &r.Grants[i]
		host := model.HostName(model.HostOf(g.Instance))
		start.Grants = append(start.Grants, api.Grant{
			Queue: model.Settings(g.Instance).Queue, Host: host, Slots: g.Slots, Names: model.Names(g),
		})
		on := m.agents[host]
		if !slices.Contains(t.hosts, on) {
			t.hosts = append(t.hosts, on)
		}
		t.slots[on] += g.Slots
	}
	m.running[t.key] = t
	m.push(t, start)
}

// order sends the cell's decision about a task to its hosts.
func (m *master) order(a cell.Action, o api.Order) {
	if t := m.running[m.key(a)]; t != nil {
		m.signal(t.id, o, t.hosts)
	}
}

func (m *master) signal(id api.ID, o api.Order, hosts []*agent) {
	for _, on := range hosts {
		m.tell(on, func(ctx context.Context) error { return on.client.Signal(ctx, id, o) }, func(err error) {
			// A job that has ended meanwhile is reported anyway.
			if e, ok := errors.AsType[*api.Error](err); err != nil && (!ok || e.Code != api.NotFound) {
				m.say("job %s on %s cannot be told to %s: %v", name(id), on.host, o, err)
			}
		})
	}
}

// jobReport handles the report of an agent about a job.
func (m *master) jobReport(a *agent, j *api.Job) {
	t := m.running[j.Key]
	switch {
	case j.Slave: // the job itself is what counts
		if j.State.Over() {
			delete(m.parts, part{a, j.Key})
		}
	case j.PETask != "":
		m.taskReport(a, j)
	case j.State.Over():
		// First write the end to the disk, then act on it, and then acknowledge it.
		if err := m.ledger.write(a.host, j); err != nil {
			m.fail(err)
			return
		}
		if t != nil {
			m.say("job %s has ended on %s: %s", name(j.ID), a.host, text(j.Outcome))
			m.jobs[t.Task.Job.ID()].ran[t.Task.Number] = j.Outcome.Ran
			m.ended(t, m.end(t, j.Outcome), t.hosts[1:])
		}
	case t == nil && !strings.HasPrefix(j.Key, strconv.FormatUint(m.epoch, 10)+"."):
		m.say("job %s on %s is of an earlier master, and is ended", name(j.ID), a.host)
		m.signal(j.ID, api.Kill, []*agent{a})
	case t != nil && j.State == api.Running && !t.begun && m.jobs[t.Task.Job.ID()].tasks != "":
		t.begun = true
		m.startTasks(t, m.jobs[t.Task.Job.ID()].tasks)
	case t != nil && j.Usage != nil:
		m.used(t, tickets.Amounts{tickets.CPU: j.Usage.CPU, tickets.Mem: j.Usage.Mem, tickets.IO: j.Usage.IO})
	}
	if j.State.Over() {
		m.acknowledge(a, j.Number)
	}
}

// usageReport handles the usage of jobs that have changed in nothing else. It does not count the usage
// of tasks of parallel jobs.
func (m *master) usageReport(a *agent, u *api.UsageReport) {
	here := map[api.ID]*attempt{}
	for _, t := range m.running {
		if t.hosts[0] == a {
			here[t.id] = t
		}
	}
	for i := range u.Jobs {
		j := &u.Jobs[i]
		if t := here[j.ID()]; t != nil {
			m.used(t, tickets.Amounts{tickets.CPU: j.CPU, tickets.Mem: j.Mem, tickets.IO: j.IO})
		}
	}
}

func (m *master) used(t *attempt, used tickets.Amounts) {
	if err := m.cell.UsageReport(m.now(), t.Task.Job.ID(), t.Task.Number, used); err != nil {
		m.say("%v", err)
	}
}

// taskReport handles the report of an agent about a task of a parallel job. It writes the end of the
// task to the ledger. The job does not depend on it.
func (m *master) taskReport(a *agent, j *api.Job) {
	if !j.State.Over() {
		return
	}
	if err := m.ledger.write(a.host, j); err != nil {
		m.fail(err)
		return
	}
	m.say("task %s of job %s has finished: %s", j.PETask, name(j.ID), text(j.Outcome))
}

// acknowledge confirms to an agent that all reports up to a number were handled.
func (m *master) acknowledge(a *agent, number uint64) {
	m.tell(a, func(ctx context.Context) error { return a.client.Acknowledge(ctx, number) }, func(err error) {
		if err != nil && m.ctx.Err() == nil {
			m.say("host %s does not take that report %d has arrived: %v", a.host, number, err)
		}
	})
}

// ended tells the cell, and the other hosts of the task, that an attempt is over.
func (m *master) ended(t *attempt, e cell.End, others []*agent) {
	delete(m.running, t.key)
	m.signal(t.id, api.Kill, others)
	m.follow(m.cell.TaskEnded(m.now(), t.Task.Job.ID(), t.Task.Number, t.Attempt, e))
}

// end converts an outcome for the cell: it adds whether the job, the queue or the host caused a
// failure, and whether the task has to run again (sge_status(5)).
func (m *master) end(t *attempt, o *api.Outcome) cell.End {
	e := cell.End{
		ExitStatus: o.ExitStatus, Reason: o.Reason,
		Used: tickets.Amounts{tickets.CPU: o.Usage.CPU, tickets.Mem: o.Usage.Mem, tickets.IO: o.Usage.IO},
	}
	switch {
	case o.Class == "job error":
		e.Failure = cell.JobFailure
	case o.Class == "queue error":
		e.Failure = cell.QueueFailure
	case o.Class == "host error":
		e.Failure = cell.HostFailure
	case o.Effect == "requeued" || o.Effect == "restarts" || o.Effect == "requeued if rerunnable" && t.Task.Job.Scheduled().Rerun:
		e.Failure = cell.NobodysFailure
	}
	return e
}

// text returns an outcome in words.
func text(o *api.Outcome) string {
	switch {
	case o.Reason != "":
		return o.Reason
	case o.Failed != 0:
		return fmt.Sprintf("failed %d, %s: %s", o.Failed, o.FailedText, o.Effect)
	}
	return fmt.Sprintf("exit status %d", o.ExitStatus)
}

// name returns the number of a job, or of a task of an array job, as in 7 or 7.3.
func name(id api.ID) string {
	if id.Task > 0 {
		return fmt.Sprintf("%d.%d", id.Job, id.Task)
	}
	return strconv.Itoa(id.Job)
}

func (m *master) now() int64 { return time.Now().Unix() }

func (m *master) say(format string, args ...any) {
	fmt.Println(time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// fail ends the master with an error after which it must not continue.
func (m *master) fail(err error) { m.err = errors.Join(m.err, err) }
