// Package swf reads and writes traces of machines in the Standard Workload Format, version 2.2: the
// jobs, their submission times, and their resource usage.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A file has a header of comments, "; Name: value", and a line of 18 numbers for each job. A Reader
// returns one record at a time, so a trace of millions of jobs needs little memory. It recognises
// gzip by the content.
//
// The package does not define how a simulation uses a record.
//
// A Reader may not be used by several goroutines at the same time.
package swf
