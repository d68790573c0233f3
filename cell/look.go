package cell

// Reported are the load values that a host has reported last, as it reported them; nil
// for a host that has not. "global" stands for the cluster. Callers must not change
// them.
func (c *Cell) Reported(host string) map[string]string { return c.loads[host] }

// Orphaned reports whether the task runs where the configuration has no queue instance
// any more: its Running is of a model that is gone.
func (t *Task) Orphaned() bool { return t.orphan }
