package agent

import (
	"context"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/ptf"
	"github.com/execd-project/execd/internal/clock"
)

// reprioritise is the interval at which nice values are adjusted to the usage of jobs, the same as
// in Grid Engine.
const reprioritise = 2 * time.Second

// pokePriorities requests that the agent computes the priorities of its jobs again.
func (a *Agent) pokePriorities() {
	select {
	case a.priorities <- struct{}{}:
	default:
	}
}

// prioritise gives running jobs a part of the processors in proportion to their tickets if
// reprioritize of sge_conf(5) is set (sge_priority(5)). Otherwise they keep the priority of their
// queue, with which they were started.
func (a *Agent) prioritise(ctx context.Context) {
	var table ptf.Table
	var timer clock.Timer
	given := false // other priorities than the queues'
	for {
		var again <-chan time.Time
		if timer != nil {
			again = timer.C()
		}
		select {
		case <-a.priorities:
		case <-again:
		case <-ctx.Done():
			return
		}
		if timer != nil {
			timer.Stop()
			timer = nil
		}
		config := a.Cluster().Config(a.options.Host)
		if !config.Reprioritize && !given {
			continue
		}
		jobs, runs, entries := a.sharers()
		var list []ptf.Priority
		switch {
		case config.Reprioritize && len(jobs) > 0:
			list = table.Compute(ptf.RangeOf(&config.ExecdParams), jobs)
			given = true
			timer = a.clock.NewTimer(reprioritise)
		case given:
			list = table.Off(jobs)
			given = false
		default:
			continue
		}
		results := a.launcher.Prioritise(runs, list)
		a.table.mu.Lock()
		for i, e := range entries {
			priority := list[i]
			if results[i].Weighted {
				priority.Nice = e.run.Description.Nice
			}
			switch {
			case results[i].Err != nil:
				a.log.Warn("the priority of a job was not changed", "job", e.id.String(), "error", results[i].Err)
			case priority != e.priority:
				e.priority = priority
				a.table.touch(e)
			}
		}
		a.table.mu.Unlock()
	}
}

// sharers returns the jobs that share the processors.
func (a *Agent) sharers() (jobs []ptf.Job, runs []*launch.Job, entries []*entry) {
	a.table.mu.Lock()
	a.noteWritten()
	a.table.mu.Unlock()
	for _, e := range a.table.list() {
		a.table.mu.Lock()
		running := (e.state == Running || e.state == Suspended) && !e.record.hosted()
		j := ptf.Job{ID: e.id, Tickets: e.record.Tickets, CPU: e.usage.CPU, Processes: 1}
		read, seen := !e.watched || e.unread, e.usageFile
		a.table.mu.Unlock()
		if !running {
			continue
		}
		// The supervisor looks more often than reports are made.
		if read {
			if usage, _, _ := e.readOnline(seen); usage != nil {
				j.CPU = max(j.CPU, usage.CPU)
			}
		}
		j.Nice = e.run.Description.Nice
		jobs = append(jobs, j)
		runs = append(runs, e.run)
		entries = append(entries, e)
	}
	return jobs, runs, entries
}
