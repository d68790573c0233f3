// Package ptf is the priority translation function: it turns the tickets that a master has
// given to running jobs into shares of the processors of this host (sge_conf(5),
// reprioritize; sge_priority(5)).
//
// Other projects should not import this package: it may change at any time.
//
// A job whose control group has a processor weight gets a weight in proportion to its tickets: the
// kernel then enforces its share at once and exactly. Any other job gets a nice value by Grid
// Engine's feedback: usage beyond its share raises the nice value of a job.
//
// Table computes and touches nothing. Apply changes groups and processes. A Table is for
// one goroutine; Apply may be called from any.
package ptf
