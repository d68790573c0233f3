// Package cluster tests the agent as execution daemon of an unmodified sge_qmaster, from
// outside: by the command-line clients of Grid Engine, in a cell of its own (package
// test/gridengine). Where the cell has hosts of its own, the agent and the original are side
// by side; with EXECD_CLUSTER_ORIGINAL=1 most other checks can be tried on the original.
//
// What a check waits for comes by itself or is let come: no check depends on how fast
// something is.
package cluster
