// Package accounting has the records of jobs that have ended: accounting(5) of Grid Engine,
// as its classic lines of 45 fields and as the lines of JSON of Open Cluster Scheduler, with
// what we know beyond that: why a job was ended, and by which limit.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It prints and reads records, and makes one from what became of a job. It does not write
// files, and knows neither hosts nor a clock; all functions may be called from any
// goroutine.
//
// "Tested" in a comment means: seen on Grid Engine 8.1.9.
package accounting
