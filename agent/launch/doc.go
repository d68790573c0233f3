// Package launch brings one job on this host from what was asked for to its
// outcome: it matches a request with the configuration, describes the job, makes
// what it needs on disk, starts its shepherd, passes orders to that, and reads
// afterwards what became of the job.
//
// Other projects should not import this package: it may change at any time.
//
// Whoever runs one job in the foreground uses Prepare with Order.Terminal, Start,
// Collect and Remove, and Sweep for what others have left who were killed. A daemon
// uses Prepare, PrepareSlave or PrepareTask, Launch, Wait, Collect and Remove; after a
// restart Open finds its jobs again, and Discard removes what never became one. It may
// be killed between any two instructions: see docs/architecture.md.
//
// It does not decide which job runs when, and it tells nobody: that is for the
// packages that use it. An Order is not changed by it and may be shared; a Job
// is for one goroutine, but for Wait and PID, which may be called beside.
package launch
