// Package standalone is a batch system on one machine: the master of a cell with one host,
// and an agent, in one process (execd standalone).
//
// Other projects should not import this package: it may change at any time.
//
// Package cell holds the state of the cell; one goroutine applies all events to it, one after
// another. Every change is in the store before it has any effect outside: the master answers a
// command, starts a task and acknowledges a report only after the commit with the change is on the
// disk. Several events may share a commit.
//
// The master gives orders to the agent as any other master does (agent.Commands). The jobs outlive the
// process: the next daemon reads the cell from the store and the jobs from the spool area, and
// reconciles them.
package standalone
