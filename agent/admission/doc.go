// Package admission keeps the books of one host: what its queue instances, consumables,
// resource maps, cores and quotas are used for by the jobs that run there, and with that
// whether there is room for another one.
//
// Other projects should not import this package: it may change at any time.
//
// It decides nothing by itself. The rules are those of package scheduler, by which a master
// has chosen the host (scheduler.State.Admit), applied to what this host knows: its own jobs,
// and of parallel jobs its own part. What is kept for the whole cluster, as a quota over
// several hosts, only a master can keep.
//
// The package starts nothing and reads no clock and no files. A Book may be used from
// several goroutines.
package admission
