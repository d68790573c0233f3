package cell

import (
	"cmp"
	"slices"
)

// QueueModified moves a cluster queue to the end of the list of queues, after qconf(1) has added or
// modified it, even without a change.
func (c *Cell) QueueModified(name string) {
	if c.modified == nil {
		c.modified = map[string]int{}
	}
	c.lastModified++
	c.modified[name] = c.lastModified
}

// InListOrder sorts names of cluster queues into the order in which qselect(1), qhost(1), qmod(1)
// and qconf(1) list them. names must be sorted. Queues modified since the start come last, in the
// order of the changes (tested).
func (c *Cell) InListOrder(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(c.modified[a], c.modified[b]) })
	return names
}
