// Package record runs the script of a case on a real Grid Engine whose execution
// hosts are simulated, and writes down what it printed: the other half of what
// "execd simulate --case" does.
//
// The scheduler is asked to report its runs (params PROFILE of sched_conf(5)), so
// that nothing is printed before a run has seen what was typed: on a slow machine a
// wait lasts longer than the script says.
//
// The package is for tests.
package record
