// Package command is the command lines of Grid Engine on a cell: what qsub, qstat, qdel,
// qmod, qconf and the others do, print and exit with.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Run carries one out at a time. Files that it names are given as texts (Needs says
// which), and what follows from it is returned: what is printed, the exit status, what
// execution hosts have to do, and which files of the configuration directory change.
// What an editor changes comes in two steps, see Result.Edit.
//
// Each command has a row in a table, with its options in a table of its own: the usage
// text, the reading of the command line and the suggestion for a mistyped option come
// from there. The options of qsub, qalter and qrsub are those of package submit.
//
// What is printed, and where, is what Grid Engine 8.1.9 prints; "tested" in a comment
// means that it was seen there. What is ours are: -json, the nearest option behind what
// is said of one that is none, and the last part of qstat -j, in plain words.
//
// The package is pure: no clock, no files, no goroutines. A Cell is for one goroutine
// at a time.
package command
