// Package submit turns what a person asks for with submit options - on the
// command line, in the #$ lines of a job script, in request files - into a
// Request: typed values, checked before anything happens.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// One table (Options) has a row per option of sge_submit(1) and qrsub(1). It
// drives the reading of all sources, the help text, the suggestion after a
// misspelt name, and says what becomes of an option in a run on one host. Parse
// reads what qsub takes, ParseAlteration what qalter takes, ParseReservation what
// qrsub takes.
//
// The package is pure: files, environment, host name and working directory are
// passed in, and nothing is started or looked up. It does not know queues,
// parallel environments or checkpoint objects; whether those exist is for the
// caller to find out. All functions may be called from any goroutine, and a
// Request is plain data.
//
// "Tested" in a comment means: seen on Grid Engine 8.1.9.
package submit
