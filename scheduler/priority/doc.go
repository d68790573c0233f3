// Package priority says in which order pending jobs are dispatched
// (sge_priority(5)): it puts the POSIX priority, the urgency and the tickets of
// jobs on one scale and sorts by the weighted sum.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is not for the tickets themselves, which package tickets computes, nor for
// what keeps a job from being started. It is pure: the time is an argument. All of
// it may be called from several goroutines, each with slices of its own.
package priority
