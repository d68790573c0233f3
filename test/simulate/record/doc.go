// Package record runs the script of a case on a real Grid Engine whose execution
// hosts are simulated, and writes down what it printed: the other half of what
// "execd simulate --case" does.
//
// The scheduler is asked to report its runs (params PROFILE of sched_conf(5)), so
// that nothing is printed before a run has seen what was typed: on a slow machine a
// wait lasts longer than the script says.
//
// Simulated hosts know no usage. In a case whose jobs say what they use, by an argument
// cpu=SECONDS, the hosts are real ones on this machine, whose shepherd is a script that says
// so when the job ends.
//
// The package is for tests.
package record
