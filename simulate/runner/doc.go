// Package runner has a cell run jobs with a clock of its own: a configuration, jobs that
// say when they are submitted and for how long they run, and nothing else. What a job
// does, what a host reports and what time it is are not looked at.
//
// Other projects should not import this package: it may change at any time.
//
// # The clock
//
// It jumps from event to event: submissions, ends of jobs, start times, calendars,
// advance reservations. Scheduling runs take place at the multiples of schedule_interval
// (sched_conf(5)) after the start, and flush_submit_sec and flush_finish_sec after
// events, if anything has happened since the last one. As long as load adjustments keep
// queues closed to jobs that wait, they take place at each interval.
//
// A task runs for as long as its job says, or until the smallest of the run time limits
// that it was started with. It uses a second of processor time per slot and second.
//
// # Hosts
//
// Each host that a queue names is up, and reports no load on as many processors as the
// largest of its queue instances has slots; and what the caller says beyond that.
//
// The package is pure: equal jobs give equal results, byte for byte. It is for one
// goroutine at a time.
package runner
