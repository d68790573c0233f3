package cell

import (
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
)

// Reported returns the load values of a host's last report, unchanged; nil if the host has not
// reported. "global" means the cluster. Callers must not change them.
func (c *Cell) Reported(host string) map[string]string { return c.loads[host] }

// Empty reports whether all jobs have left.
func (c *Cell) Empty() bool { return len(c.jobs) == 0 }

// Explain determines why jobs are pending if scheduling runs do not (Options.Unexplained). It
// returns the decisions that a run would make now, without applying them.
func (c *Cell) Explain(now int64) *scheduler.Decisions {
	c.tick(now)
	c.state.SetExplaining(true)
	c.decisions = c.state.Run(now)
	c.state.SetExplaining(!c.options.Unexplained)
	return c.decisions
}

// Unexplained reports whether only Explain determines why jobs are pending (Options.Unexplained).
func (c *Cell) Unexplained() bool { return c.options.Unexplained }

// HostNames returns the rule for comparing names of hosts (Options.Hosts).
func (c *Cell) HostNames() expression.HostNames { return c.options.Hosts }

// Rerunnable reports whether a running task may be started again: by qsub -r, or else by the
// setting of its queue (queue_conf(5), rerun).
func (c *Cell) Rerunnable(job, task uint32) bool {
	t, err := c.runningTask(job, task)
	return err == nil && c.rerunnable(t)
}
