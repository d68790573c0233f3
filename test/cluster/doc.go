// Package cluster tests the agent as the execution daemon of an unmodified sge_qmaster, with the
// command-line clients of Grid Engine, in a separate cell (package test/gridengine). In cells with
// several hosts, the agent and sge_execd run side by side; with EXECD_CLUSTER_ORIGINAL=1 most other
// checks can be run on sge_execd.
//
// Checks wait for events and do not depend on the speed of the machine.
package cluster
