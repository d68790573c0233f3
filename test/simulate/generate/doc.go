// Package generate makes up cases from a seed: a small cluster, and a script of
// submissions, in the layout of a recorded case but without its outputs.
//
// Equal seeds give equal cases, byte for byte. Each kind of object and of request is
// in some of the cases only, so that a difference can be led back to few causes.
//
// Cases avoid what the clock decides. Queues are disabled while jobs are submitted,
// so that one run of the scheduler sees all of them; no weight is given to waiting
// time; usage does not decay; corrections of load values decay over a day; times
// that jobs ask for are so far apart that a few seconds do not change a plan; hosts
// have different load values and queues different sequence numbers, so that no queue
// instances tie.
//
// The package is for tests. It asks nothing of the machine but a folder to write to.
package generate
