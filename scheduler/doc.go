// Package scheduler decides which job starts when and where, as Grid Engine 8.1 does. Masters and
// agents share it.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A Model is the compiled configuration of a cluster. A State is a master's current knowledge: the
// load values of hosts, the states of queue instances, running tasks and pending jobs. State.Run is
// one scheduling run at a given time. It returns Decisions with their reasons and leaves the State
// unchanged; the master then applies the decisions that it follows to the State. Equal input gives
// equal output.
//
// Jobs with equal requests belong to one Category, and each result about a Category holds for all
// its jobs: the cost of a run grows with the number of categories and of jobs that start, not with
// jobs times hosts.
//
// The package is pure: it has no clock, reads no files, writes no log and starts no goroutine. A
// Model and everything made from it may be used by only one goroutine at a time: the configuration
// in it is constant, but it caches results.
//
// Times are seconds since 1970. Places are dense numbers, in the order of the Model.
package scheduler
