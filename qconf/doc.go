// Package qconf reads, validates and prints Grid Engine's objects in the
// notation of qconf(1), one by one or as a directory of files (Load): queues,
// hosts, host groups, complexes, parallel and checkpointing environments,
// calendars, users, projects, user sets, the share tree, resource quota sets,
// and the configurations of cluster, hosts and scheduler.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is pure: it opens no files and starts no processes; the caller passes bytes or an fs.FS. It
// makes no decisions about jobs. It converts the text of administrators into types and refuses
// invalid text. Load formulas, calendars, patterns and expressions stay text, which the scheduler
// interprets.
//
// Each object is a table with one row per attribute: its name, the template's default, and its
// kind, which checks a value and stores it in a typed field. The object also stores the text of
// each value, so that it is printed as it was written ("00:00:60" stays "00:00:60"). Objects are
// not changed in place: With returns a changed copy and checks it like a file. Complexes, share
// trees and resource quota sets are not lists of attributes, so they have separate readers and
// printers.
//
// All objects are immutable and may be used by several goroutines. Returned slices are shared with
// the object: do not write to them.
package qconf
