// Package replay runs a recorded case again: a configuration, the load of its hosts and a script of
// commands (package script), with a simulated clock. At each capture of the script it prints the
// output that the original printed there.
//
// Other projects should not import this package: it may change at any time.
//
// # Layout of a case
//
//	input/complexes, input/queues/*, ...   a configuration, see qconf.Load
//	input/load_values                      host:attribute:value, at the end of the case
//	input/initial_usage                    previous usage of users and projects
//	jobs.txt                               the script
//	output/STEP/*                          the recorded output, if there is any
//
// sched_conf and load_values contain the values at the end of the case. A parameter that the script
// changes has its default at the beginning.
//
// # The clock
//
// A recording does not contain the time of each line. The times are derived from comments of the
// script, and from dates in the output, which show when jobs were submitted and when scheduling
// runs started them. The other lines are placed in between, at the speed of interactive typing.
// Without any of these the case begins at a fixed time. Only times are taken from the output, and
// the queue instances that were disabled at the beginning; never scheduling decisions.
//
// A job is in transfer for five seconds, and then runs for the number of seconds in the first
// argument of its command. If the time of its end is recorded (times.txt of a step), it ran on a
// real host, and ends at that time. An argument cpu=SECONDS after the first one is its usage at the
// end. Changed load values reach the master after some seconds, or at once after a line with the
// time.
//
// The package reads the given file system and writes nothing. It is for one goroutine at a time.
package replay
