// Package scheduler decides which job starts when and where, as Grid Engine 8.1 does:
// it is what masters and agents share.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A Model is the configuration of a cluster, compiled. A State is what a master knows
// at a moment: what hosts report, which queue instances are usable, what runs where,
// and which jobs wait. State.Run is one scheduling run at a given time: it returns
// Decisions, each with its reasons, and leaves the state as it was; what is decided
// becomes true when the master tells the state so. Equal input gives equal output.
//
// Jobs whose requests are equal are one Category, and what is found out about one of
// them holds for all: the cost of a run grows with the categories and with the jobs
// that start, not with jobs times hosts.
//
// The package is pure: it has no clock, reads no files, writes no log and starts no
// goroutine. A Model, and all that is made of it, is for one goroutine at a time: the
// configuration in it does not change, but it remembers what it has been asked.
//
// Times are seconds since 1970. Places are dense numbers, in the order of the Model.
package scheduler
