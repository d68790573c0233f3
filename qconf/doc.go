// Package qconf reads, validates and prints Grid Engine's objects in the
// notation of qconf(1): queues, configurations, parallel environments,
// checkpointing environments and host groups, one by one or as a directory of
// files (Load).
//
// It is pure: it opens nothing by itself and starts nothing, the caller hands
// it bytes or an fs.FS. It does not decide anything about jobs, either; it
// says what an administrator wrote, in types, and refuses what cannot be meant.
//
// Each object is a table with one row per attribute: its name, the template's
// default, and its kind, which checks a value and stores it in a typed field.
// The text of a value is kept beside its meaning, so that an object is printed
// as it was written ("00:00:60" stays "00:00:60"). Objects are not changed in
// place: With returns a changed copy, checked like a file.
//
// What is read is immutable and may be used from any goroutine. Slices of a
// returned value are shared with it and must not be written to.
package qconf
