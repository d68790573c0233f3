// Package submit reads submit options - on the command line, in the #$ lines of a job script, in
// request files - and makes a Request of them: typed values, checked before the job is submitted.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// One table (Options) has a row per option of sge_submit(1) and qrsub(1). It controls how all
// sources are read, the help text, the suggestion after a misspelt name, and the treatment of an
// option in a run on one host. Parse reads the options of qsub, ParseAlteration those of qalter,
// ParseReservation those of qrsub.
//
// The package is pure: the caller passes files, environment, host name and working directory in,
// and the package starts nothing. It does not know queues, parallel environments or checkpoint
// objects; the caller checks whether they exist. All functions may be called from any goroutine,
// and a Request is plain data.
//
// "Tested" in a comment means: observed on Grid Engine 8.1.9.
package submit
