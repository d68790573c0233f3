// Package limits says what a job may use: how the limits of queue_conf(5)
// become resource limits of the kernel for each process, and which clock ends
// a job.
//
// Other projects should not import this package: it may change at any time.
//
// It decides and does not act: the starter sets the limits in the job's child
// and owns the timers. It is linked into the per-job supervisor and imports
// next to nothing. All functions may be called from any goroutine.
package limits
