// Package launch runs one job on this host, from its request to its outcome: it matches the request
// with the configuration, describes the job, creates its files, starts its shepherd, passes orders
// to the shepherd, and afterwards reads the outcome.
//
// Other projects should not import this package: it may change at any time.
//
// A program that runs one job in the foreground uses Prepare with Assignment.Terminal, Start,
// Collect and Remove, and Sweep to clean up after killed programs. A daemon uses Prepare,
// PrepareSlave or PrepareTask, Launch, Wait, Collect and Remove; after a restart Open finds its
// jobs again, and Discard removes incomplete ones. The daemon may be killed between any two
// instructions: see docs/architecture.md.
//
// It neither schedules jobs nor reports them: the packages that use it do. It does not change an
// Assignment, which may be shared. A Job may be used by one goroutine at a time, except for Wait
// and PID, which may be called concurrently.
package launch
