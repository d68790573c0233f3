// Package qconf reads, validates and prints Grid Engine's objects in the
// notation of qconf(1), one by one or as a directory of files (Load): queues,
// hosts, host groups, complexes, parallel and checkpointing environments,
// calendars, users, projects, user sets, the share tree, resource quota sets,
// and the configurations of cluster, hosts and scheduler.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is pure: it opens nothing by itself and starts nothing, the caller hands
// it bytes or an fs.FS. It does not decide anything about jobs, either; it
// says what an administrator wrote, in types, and refuses what cannot be meant.
// Load formulas, calendars, patterns and expressions are kept as text: what they
// mean is the scheduler's business.
//
// Each object is a table with one row per attribute: its name, the template's
// default, and its kind, which checks a value and stores it in a typed field.
// The text of a value is kept beside its meaning, so that an object is printed
// as it was written ("00:00:60" stays "00:00:60"). Objects are not changed in
// place: With returns a changed copy, checked like a file. Complexes, share
// trees and resource quota sets, which are no lists of attributes, have readers
// and printers of their own.
//
// What is read is immutable and may be used from any goroutine. Slices of a
// returned value are shared with it and must not be written to.
package qconf
