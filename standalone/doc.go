// Package standalone is a batch system on one machine: the master of a cell with one host,
// and an agent, in one process (execd standalone).
//
// Other projects should not import this package: it may change at any time.
//
// The state of the cell is that of package cell; what happens to it is one event after
// another in one goroutine. What has changed is in the store before anybody learns of it:
// an answer to a command goes out, a task is started and a report is acknowledged when the
// commit that has it is on the disk. Several events share a commit.
//
// The agent is driven as any master drives one (agent.Commands), and the jobs are its own:
// they outlive the process, and the next one finds the cell in the store and the jobs in
// the spool area, and brings both together.
package standalone
