// Package job says what a job is and what became of it: its description, its
// limits, its outcome, and the table of failure codes with their classes.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It is the common language of every other package: a leaf without I/O. Each
// outside format (the config file of the job directory, submit options, a
// master's messages) has one translation to and from Description, kept with
// that format. Values of its types are plain data; a Description is not
// changed once the job has been started, so it may be read from any goroutine.
package job
