// Package standalone is a batch system on one machine: the master of a cell with one host,
// and an agent, in one process (execd standalone).
//
// Other projects should not import this package: it may change at any time.
//
// Package cell holds the state of the cell; one goroutine applies all events to it, one after
// another. Every change is in the store before anybody learns of it: the master answers a command,
// starts a task and acknowledges a report only after the commit with the change is on the disk.
// Several events may share a commit.
//
// The agent is driven as any master drives one (agent.Commands), and the jobs are its own:
// they outlive the process, and the next one finds the cell in the store and the jobs in
// the spool area, and brings both together.
package standalone
