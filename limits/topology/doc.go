// Package topology reads the processors of a host: sockets, cores, threads and memory nodes from
// the kernel's sysfs, with the logical socket and core numbers that Grid Engine uses. It also reads
// and prints the formats for them: CPU lists and masks, and topology strings.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It neither chooses cores (package binding does) nor binds processes to them. It does no I/O of
// its own: the caller of Read passes a function that returns the content of a file, so that tests
// can read any machine from a text archive.
//
// All types are plain values, which no function of this package modifies. Several goroutines may
// use them as long as none writes to their fields.
//
// The package is linked into the supervisor of every job, so it imports neither fmt nor any other
// large package.
package topology
