// Package cell is the state machine of a master: what is submitted, held, altered and
// deleted; what starts where and what it has used; the states of queue instances; what
// thresholds, subordination and calendars suspend. The decisions are those of package
// scheduler; this package is what happens between two of them.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is driven by events. Each method that changes something takes the time, in seconds
// since 1970, and returns what the original's command prints, and what the execution side
// has to do (Action) as plain data. The caller carries it out, and reports with TaskStarted,
// TaskEnded and HostReport. Times must not go backwards; nothing else is asked of them, so
// that a simulation can jump to NextEvent.
//
// What a master may not forget Changes returns as records, and Restore makes a cell of
// them. Whatever changes something that is kept notes it (unsaved.go).
//
// It is pure: no clock, no files, no goroutines, no order of maps in a result. Equal
// events give equal answers, byte for byte. A Cell is for one goroutine at a time.
//
// "Tested" in a comment means: seen on Grid Engine 8.1.9.
package cell
