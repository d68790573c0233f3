// Package agent is the daemon of an execution host. It accepts job starts from a master, runs each
// job from the creation of its directory to its last report, and loses none of them, even if the
// agent, the supervisor or the master is killed.
//
// Other projects should not import this package: it may change at any time.
//
// An Agent keeps one table of jobs (see State for the picture). It starts and ends no job on its
// own: a Link brings the orders and carries the reports. Package agent/launch runs the jobs; the
// supervisor of each job enforces its limits.
package agent
