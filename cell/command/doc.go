// Package command implements the command lines of Grid Engine on a cell: the effects, the output
// and the exit statuses of qsub, qstat, qdel, qmod, qconf and the others.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Run carries out one command line. The caller passes the texts of the files that it names (Needs
// lists them). Run returns the output, the exit status, the actions for execution hosts, and the
// changed files of the configuration directory. A command with an editor needs two calls, see
// Result.Edit.
//
// Each command has a row in a table, and each row has a table of options. The usage text, the
// parser and the suggestions for mistyped options use these tables. The options of qsub, qalter and
// qrsub are those of package submit.
//
// The output is the same as Grid Engine 8.1.9's; "tested" in a comment means that Grid Engine 8.1.9
// was seen to do this. Only execd has -json, the suggestion after the message about an unknown
// option, and the last part of qstat -j, in plain words.
//
// The package is pure: no clock, no files, no goroutines. A Cell is for one goroutine
// at a time.
package command
