// Package simulate tests "execd simulate --case" against what the scheduler of a
// real Grid Engine 8.1.9 decided: against cases that were recorded once
// (scheduler/testdata/golden), and, where Grid Engine is installed, against cases
// that are made up from a seed and recorded on the spot.
//
//	generate  makes up cases
//	record    runs a case on a real Grid Engine with simulated hosts
//	compare   tells in what two recordings differ
//	script    the language of jobs.txt
package simulate
