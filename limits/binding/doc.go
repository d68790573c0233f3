// Package binding chooses the cores that a job is bound to (-binding of sge_submit(1)), and reads
// and prints the formats of the choice: the config file's binding entry, SGE_BINDING and the fourth
// column of the pe_hostfile.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// The package does no I/O. The caller reads the topology, stores the cores in use by jobs (InUse),
// and applies the choice by a cpuset or by sched_setaffinity(2).
//
// A binding request is a hint: if it cannot be satisfied, the job runs unbound. A *RefusedError
// from Choose is therefore no failure of the job. It is for the log and for people who ask for the
// reason.
//
// Differences from the original:
//
//   - Choose computes the cores once, and the result names them explicitly. The
//     original passes linear requests with a start core, and striding requests,
//     as parameters. Its shepherd computes the cores again, and binds to other
//     cores than execd accounts, or to none.
//   - SGE_BINDING is also set for -binding pe, as the manual page says.
//   - After the first empty socket, linear takes the socket with the most free
//     cores, as the manual page says. The original first takes all other empty
//     sockets. The results differ only if sockets have different sizes.
//
// Values are plain data. InUse is a map: its owner must lock it.
package binding
