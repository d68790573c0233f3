// Package limits computes the resource limits of a job: it converts the limits of queue_conf(5) to
// kernel limits for each process, and decides when the usage of a whole job has reached a limit.
//
// Other projects should not import this package: it may change at any time.
//
// The package makes decisions and does not act on them: package starter sets the limits in the
// job's child and owns the timers. It is linked into the per-job supervisor, so it imports very
// little. All functions may be called from any goroutine.
package limits
