package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// tasksVariable is the variable of a job's context (qsub -ac) that names a program to run in each slot
// of a parallel job.
const tasksVariable = "tasks"

// tasksOf returns the program that a request names; empty for none.
func tasksOf(r *submit.Request) string {
	for _, v := range r.Context {
		if v.Name == tasksVariable {
			return v.Value
		}
	}
	return ""
}

// part is the part of a job on an agent whose master task is elsewhere.
type part struct {
	on  *agent
	key string // of the start
}

// push starts a task on all hosts on which it has slots. The job itself starts after the other hosts
// have accepted their parts, so that it can start tasks there at once.
func (m *master) push(t *attempt, start api.Start) {
	t.missing = len(t.hosts) - 1
	there := start
	there.Slave = true
	for _, on := range t.hosts[1:] {
		m.parts[part{on, t.key}] = true
		m.pushTo(t, on, there, func() {
			if t.missing--; t.missing == 0 {
				m.pushMaster(t, start)
			}
		})
	}
	if t.missing == 0 {
		m.pushMaster(t, start)
	}
}

func (m *master) pushMaster(t *attempt, start api.Start) {
	m.pushTo(t, t.hosts[0], start, func() {
		m.say("job %s has been started on %s", name(t.id), t.hosts[0].host)
		if err := m.cell.TaskStarted(m.now(), t.Task.Job.ID(), t.Task.Number, t.Attempt); err != nil {
			m.say("%v", err)
		}
	})
}

// pushTo starts a task on one host. A task that the agent has accepted will run, and must not be
// started again whatever happens.
func (m *master) pushTo(t *attempt, on *agent, start api.Start, taken func()) {
	m.tell(on, func(ctx context.Context) error {
		_, err := on.client.Start(ctx, start)
		return err
	}, func(err error) {
		if err != nil {
			delete(m.parts, part{on, t.key}) // there will be no report of it
		}
		switch {
		case m.running[t.key] != t || m.ctx.Err() != nil: // it has already ended
		case err == nil:
			taken()
		default:
			m.say("job %s is refused by %s: %v", name(t.id), on.host, err)
			failure := cell.Refused // the next run looks for another place
			if final(err) {
				failure = cell.JobFailure
			}
			others := slices.DeleteFunc(slices.Clone(t.hosts), func(a *agent) bool { return a == on })
			m.ended(t, cell.End{Failure: failure, Reason: err.Error()}, others)
		}
	})
}

// startTasks runs the program of a parallel job in all its slots, as mpirun would with qrsh
// -inherit from within the job. If control_slaves of the parallel environment (sge_pe(5)) is set,
// the agents supervise the tasks and end them with the job.
func (m *master) startTasks(t *attempt, program string) {
	pe, err := m.cell.Model().Cluster().PE(m.cell.Model().PEName(t.Task.Running().PE))
	if err != nil {
		m.say("%v", err)
		return
	}
	number := 0
	for _, on := range t.hosts {
		for range t.free(on, pe) {
			number++
			m.startTask(t, on, api.TaskStart{
				Job: t.id.Job, Task: t.id.Task, Key: t.key + "/" + strconv.Itoa(number), Owner: t.Task.Job.Owner(),
				Command: []string{program}, Environment: map[string]string{"TASK": strconv.Itoa(number)},
			})
		}
	}
}

// free returns the number of slots that a task has on a host, without that of the job itself.
func (t *attempt) free(on *agent, pe *qconf.ParallelEnvironment) int {
	n := t.slots[on]
	if on == t.hosts[0] && pe.JobIsFirstTask {
		n--
	}
	return n
}

// startTask starts one of these tasks. If a task cannot be started, it ends the job.
func (m *master) startTask(t *attempt, on *agent, task api.TaskStart) {
	m.tell(on, func(ctx context.Context) error {
		j, err := on.client.StartTask(ctx, task)
		task.Key = j.PETask // for people
		return err
	}, func(err error) {
		switch {
		case m.running[t.key] != t || m.ctx.Err() != nil: // it has already ended
		case err == nil:
			m.say("task %s of job %s has been started", task.Key, name(t.id))
		default:
			m.say("a task of job %s is refused by %s, and the job is ended: %v", name(t.id), on.host, err)
			m.signal(t.id, api.Terminate, t.hosts)
		}
	})
}
