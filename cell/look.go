package cell

import (
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
)

// Reported returns the load values that a host has reported last, as it reported them; nil
// for a host that has not. "global" stands for the cluster. Callers must not change
// them.
func (c *Cell) Reported(host string) map[string]string { return c.loads[host] }

// Empty reports whether all jobs have left.
func (c *Cell) Empty() bool { return len(c.jobs) == 0 }

// Explain finds out why jobs wait, where scheduling runs do not (Options.Unexplained):
// what a run would decide now. Nothing of it is done.
func (c *Cell) Explain(now int64) *scheduler.Decisions {
	c.tick(now)
	c.state.SetExplaining(true)
	c.decisions = c.state.Run(now)
	c.state.SetExplaining(!c.options.Unexplained)
	return c.decisions
}

// Unexplained reports whether scheduling runs do not find out why jobs wait
// (Options.Unexplained): Explain does.
func (c *Cell) Unexplained() bool { return c.options.Unexplained }

// HostNames returns how names of hosts are compared (Options.Hosts).
func (c *Cell) HostNames() expression.HostNames { return c.options.Hosts }

// Rerunnable reports whether a task that runs may be started again: as qsub -r says, or
// else the queue that it runs in (queue_conf(5), rerun).
func (c *Cell) Rerunnable(job, task uint32) bool {
	t, err := c.runningTask(job, task)
	return err == nil && c.rerunnable(t)
}
