// Package calendar holds the calendars of queues (calendar_conf(5)): reading the year
// and week parts, and when they open, close and suspend a queue.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It does not use queues or jobs, and it has no clock: time and time zone are arguments.
//
// It is pure. Calendars are immutable and may be used from any goroutine.
package calendar
