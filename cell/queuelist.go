package cell

import (
	"cmp"
	"slices"
)

// QueueModified puts a cluster queue at the end of the list of queues: qconf(1) has added or
// modified it, be it without any change.
func (c *Cell) QueueModified(name string) {
	if c.modified == nil {
		c.modified = map[string]int{}
	}
	c.lastModified++
	c.modified[name] = c.lastModified
}

// InListOrder puts names of cluster queues, sorted, into the order of the list of queues, which
// is the order in which qselect(1), qhost(1), qmod(1) and qconf(1) go through it: those that
// were modified since the start come last, in the order of these changes (tested).
func (c *Cell) InListOrder(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(c.modified[a], c.modified[b]) })
	return names
}
