// Package runner simulates a cell that runs jobs, with a simulated clock. Its input is a
// configuration, and jobs with their submission times and run times. It does not use commands of
// jobs, load of real hosts or the real time.
//
// Other projects should not import this package: it may change at any time.
//
// # The clock
//
// The clock jumps from event to event: submissions, ends of jobs, start times, calendars, advance
// reservations. Scheduling runs take place at multiples of schedule_interval (sched_conf(5)) after
// the start, and flush_submit_sec and flush_finish_sec after events, if anything has happened since
// the last run. While load adjustments keep queues closed to pending jobs, a run takes place at
// each interval.
//
// A task runs for its job's run time, or until the smallest of the run time limits with which it
// was started. It uses one second of CPU time per slot and second.
//
// # Hosts
//
// Each host that a queue names is up. It reports no load, and as many processors as its largest
// queue instance has slots; the caller may add load values.
//
// The package does no I/O: equal input gives equal results, byte for byte. It is for one goroutine
// at a time.
package runner
