// Package agent is the node daemon: it takes job starts from a master, sees each
// through from its directory to its last report, and loses none of them, whoever
// dies meanwhile.
//
// Other projects should not import this package: it may change at any time.
//
// An Agent keeps one table of jobs (see State for the picture). It starts and ends
// nothing of its own accord: what is to happen comes through a Link, and what has
// happened goes out through it. How a job is run is the matter of agent/launch; what
// it may use, of its supervisor.
package agent
