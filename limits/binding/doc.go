// Package binding chooses the cores that a job is bound to (-binding of
// sge_submit(1)) and keeps the notations of the choice: the config file's
// binding entry, SGE_BINDING and the fourth column of the pe_hostfile.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is pure. The caller reads the topology, keeps the cores in use by jobs
// (InUse), and applies the choice by a cpuset or by sched_setaffinity(2).
//
// A binding request is a hint: where it cannot be done the job runs, unbound.
// So a *RefusedError from Choose is for the log and for whoever asks why, not a
// failure of the job.
//
// Differences from the original:
//
//   - The cores are computed once, by Choose, and are given on as explicit
//     cores. The original gives linear requests with a start and striding ones
//     on as parameters, computes the cores again in the shepherd, and there
//     binds to other cores than it accounts, or to none.
//   - SGE_BINDING is set for -binding pe, too, as the manual page says.
//   - After the first empty socket, linear takes the socket with most free
//     cores, as the manual page says. The original first takes all other
//     empty sockets; that differs only where sockets differ in size.
//
// Values are plain data. InUse is a map: its owner does the locking.
package binding
