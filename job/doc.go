// Package job defines a job and its result: the description, the limits, the outcome, and the table
// of failure codes with their classes.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// All other packages use these types. The package does no I/O and imports little. Each external
// format (the config file of the job directory, submit options, a master's messages) has one
// translation to and from Description, in the package of that format. Values are plain data. A
// Description does not change once the job has been started, so any goroutine may read it.
package job
