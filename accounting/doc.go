// Package accounting reads and prints records of finished jobs: the classic lines of accounting(5)
// with 45 fields, and the JSON lines of Open Cluster Scheduler. In addition to the original's
// fields, a record contains the reason why a job was killed, and the limit that killed it.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// The package also makes a record from the outcome of a job. It writes no files and needs neither a
// host nor a clock. All functions may be called from any goroutine.
//
// "Tested" in a comment means: observed on Grid Engine 8.1.9.
package accounting
