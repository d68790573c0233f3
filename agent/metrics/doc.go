// Package metrics shows the status of an agent: as metrics for Prometheus at /metrics, and at
// /healthz as a status for programs that only ask whether the agent works.
//
// Other projects should not import this package: it may change at any time.
//
// It queries states at each scrape, so that no value is out of date, and a finished job leaves no
// series behind. It counts only events (starts, refusals, ends) since the start of the agent: see
// the methods of Metrics.
//
// Names and units follow Prometheus: seconds, bytes, _total for counters. Everyone who can connect
// can read the owners of jobs, so the address should belong to this host or to a private network of
// the site.
//
// It is not for load values, which masters and package loadsensor deal with. All of
// it may be used from several goroutines.
package metrics
