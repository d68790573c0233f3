// Package scheduling measures scheduling runs of the real Grid Engine, Debian's 8.1.9
// with simulated execution hosts, and ours on the same input, one after the other: on
// one machine, in one run, so that their ratio means something.
//
//	go test -v -run '^$' -bench . -benchtime 1x ./test/scheduling
//
// Both get the same texts: the objects as qconf prints them, and the jobs as lines of
// qsub. The original's scheduler runs when it is told to (qconf -tsm) and writes how
// long it took (params PROFILE of sched_conf(5)).
package scheduling
