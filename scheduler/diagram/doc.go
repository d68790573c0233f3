// Package diagram implements resource diagrams: the future use of a resource by running jobs,
// reservations and closed queues. They are the basis of resource reservation and backfilling
// (sched_conf(5), max_reservation), and of advance reservation.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A diagram is a step function. Jobs are booked from their start for their expected duration, and
// may start at a time from which they fit for all of that duration. A calendar that closes a queue
// is booked like a job that takes all slots.
//
// The caller provides the resources, their capacities and the durations of jobs, and selects the
// best of several starts.
//
// It is pure. A Diagram may not be changed by several goroutines.
package diagram
