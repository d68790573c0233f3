// Package topology knows the processors of a host: sockets, cores, threads and
// memory nodes as the kernel shows them in sysfs, with the logical socket and
// core numbers that Grid Engine uses, and the notation of both (CPU lists and
// masks, topology strings).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is not for choosing cores (package binding does that) and not for binding
// processes to them. It does no I/O of its own: Read is given a function that
// returns the content of a file, so that any machine can be read from a text
// archive in a test.
//
// All types are values that no function of this package changes behind the
// caller's back; they may be used from several goroutines as long as nobody
// writes to their fields.
//
// The package is linked into the supervisor of every job, so it imports
// neither fmt nor anything else that is large.
package topology
