package cell

// Reported are the load values that a host has reported last, as it reported them; nil
// for a host that has not. "global" stands for the cluster. Callers must not change
// them.
func (c *Cell) Reported(host string) map[string]string { return c.loads[host] }
