// Package cell is the state machine of a master. It handles jobs that are submitted, held, altered
// and deleted, their starts and their usage, the states of queue instances, and suspensions by
// thresholds, subordination and calendars. Package scheduler makes the decisions; this package does
// everything between two scheduling runs.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Method calls drive the cell. Each method that changes something takes the time, in seconds since
// 1970. It returns plain data: what has happened or was refused, as typed events (Event,
// DeniedError), and the actions for the execution side (Action). Package cell/command makes Grid
// Engine's texts of events. The caller carries out the actions, and reports with TaskStarted,
// TaskEnded and HostReport. Times must not decrease; there is no other condition, so a simulation
// can jump to NextEvent.
//
// Changes returns the state that a master must store, as records, and Restore makes a cell of
// records. Code that changes stored state marks it as unsaved (unsaved.go).
//
// The package does no I/O: it uses no clock, no files and no goroutines, and no result depends on
// the order of a map. Equal calls give equal answers, byte for byte. Only one goroutine may use a
// Cell at a time.
//
// "Tested" in a comment means: observed on Grid Engine 8.1.9.
package cell
