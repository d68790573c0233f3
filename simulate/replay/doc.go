// Package replay runs a recorded case again: a configuration, the load of its hosts and
// a script of what was typed (package script), with a clock of its own. At each capture
// of the script it prints what the original printed there.
//
// Other projects should not import this package: it may change at any time.
//
// # Layout of a case
//
//	input/complexes, input/queues/*, ...   a configuration, see qconf.Load
//	input/load_values                      host:attribute:value, at the end of the case
//	input/initial_usage                    what users and projects have used before
//	jobs.txt                               the script
//	output/STEP/*                          what was printed, where it is known
//
// sched_conf and load_values are as they were in the end. What the script changes is, in
// the beginning, the default of the parameter, and the value that it has in the end.
//
// # The clock
//
// A recording does not say when each line was typed. What is known about it is taken from
// where it stands: comments of the script, and dates in output, which say when jobs were
// submitted and when scheduling runs started them. The other lines come in between, as
// fast as a person's shell would type them. Without any of these the case begins at
// a time that is always the same. Decisions are not taken from output, just times, and
// which of the queue instances were disabled in the beginning.
//
// A job is in transfer for five seconds, and then runs for as many as the first argument
// of its command says. Where the time of its end is known (times.txt of a step) it has run on
// a host that is none of the simulated ones, and ends then. An argument cpu=SECONDS after the
// first one is its usage at the end. Load values that change reach the master some seconds
// later, but right behind a line with the time, which is when they do.
//
// The package reads a file system that it is given, and writes nothing. It is for one
// goroutine at a time.
package replay
