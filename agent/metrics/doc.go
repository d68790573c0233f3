// Package metrics shows the status of an agent: as metrics for Prometheus at /metrics, and
// at /healthz as a status for whatever asks only whether it works.
//
// Other projects should not import this package: it may change at any time.
//
// What can be asked for is asked for at each scrape, so nothing can be out of date and
// a job that is gone leaves no series behind. Only what is an event is counted here
// (starts, refusals, ends), since the agent started: see the methods of Metrics.
//
// Names and units are those of Prometheus: seconds, bytes, _total for what only grows.
// Owners of jobs can be read by whoever may connect, so the address should be one of
// this host, or of a network of the site's own.
//
// It is not for load values, which masters and package loadsensor deal with. All of
// it may be used from several goroutines.
package metrics
