// Package admission records the usage of one host by its running jobs: queue instances,
// consumables, resource maps, cores and quotas. With that it decides whether another job fits.
//
// Other projects should not import this package: it may change at any time.
//
// It has no rules of its own. It applies the rules of package scheduler, by which a master has
// chosen the host (scheduler.State.Admit), to the host's own jobs and its part of parallel jobs.
// Only a master can enforce limits of the whole cluster, such as a quota over several hosts.
//
// The package starts nothing and reads no clock and no files. A Book may be used from
// several goroutines.
package admission
