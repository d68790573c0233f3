// Package submit reads submit options from the command line, from the #$ lines of a job script, and
// from request files. The result is a Request: typed values, checked before the job is submitted.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// One table (Options) has a row per option of sge_submit(1) and qrsub(1). It controls how all
// sources are read, the help text, the suggestion after a misspelt name, and the treatment of an
// option in a run on one host. Parse reads the options of qsub, ParseAlteration those of qalter,
// ParseReservation those of qrsub.
//
// The package does no I/O: the caller passes files, environment, host name and working directory,
// and the package starts no program. It does not know queues, parallel environments or checkpoint
// objects; the caller checks whether they exist. All functions may be called from any goroutine,
// and a Request is plain data.
//
// "Tested" in a comment means: observed on Grid Engine 8.1.9.
package submit
