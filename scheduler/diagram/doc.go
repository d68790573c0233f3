// Package diagram holds resource diagrams: how much of a resource is in use at
// which time in the future, by what runs, is reserved or is closed. On them rest
// resource reservation and backfilling (sched_conf(5), max_reservation) and
// advance reservation.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A diagram is a step function. Jobs are in it from their start for as long as
// they are expected to last, and may start where they fit for all of that time.
// A calendar that closes a queue is booked like a job that takes all slots.
//
// The package does not know what resources there are, how much there is of them,
// how long jobs last, or which start of several is the best.
//
// It is pure. A Diagram may not be changed by several goroutines.
package diagram
