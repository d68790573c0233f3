// Package launch brings one job on this host from what was asked for to its
// outcome: it matches a request with the configuration, describes the job, makes
// what it needs on disk, starts its shepherd, passes orders to that, and reads
// afterwards what became of the job.
//
// It does not decide which job runs when, and it tells nobody: that is for the
// packages that use it. An Order is not changed by it and may be shared; a Job
// is for one goroutine.
package launch
