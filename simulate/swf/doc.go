// Package swf reads and writes traces of machines in the Standard Workload Format,
// version 2.2: what jobs there were, when they were submitted, and what they used.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A file has a header of comments, "; Name: value", and a line of 18 numbers for
// each job. A Reader goes through it record by record, so that a trace of millions of
// jobs takes no memory; gzip is recognised by its content.
//
// The package does not know what becomes of a record in a simulation.
//
// A Reader may not be used by several goroutines.
package swf
