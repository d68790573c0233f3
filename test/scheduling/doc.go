// Package scheduling measures scheduling runs of the real Grid Engine (Debian's 8.1.9 with
// simulated execution hosts) and of this project on the same input, one after the other on one
// machine in one run, so that their ratio is meaningful.
//
//	go test -v -run '^$' -bench . -benchtime 1x ./test/scheduling
//
// Both get the same input: the objects in the format of qconf, and the jobs as qsub command lines.
// The original's scheduler runs on request (qconf -tsm) and writes the duration of the run (params
// PROFILE of sched_conf(5)).
package scheduling
