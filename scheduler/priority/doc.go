// Package priority says in which order pending jobs are dispatched
// (sge_priority(5)): it puts the POSIX priority, the urgency and the tickets of
// jobs on one scale and sorts by the weighted sum.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It computes neither tickets (package tickets does) nor the conditions for starts. It is pure: the
// time is an argument. All functions may be called by several goroutines, each with its own slices.
package priority
