// Package tickets computes what a site's policies entitle jobs to, in tickets: the
// share tree, the functional and the override policy, and how they depend on each
// other (sge_priority(5), ticket policy; sched_conf(5), policy_hierarchy;
// share_tree(5)).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Calculate gives the tickets of the pending and running tasks of a scheduling run.
// A Ledger keeps the usage of users and projects from one run to the next, and
// Tree.Monitor says what sge_share_mon(1) prints of it. Package priority turns the
// tickets into an order of dispatch.
//
// Users, projects and departments are indexes into slices of the caller. All is
// pure: the time is an argument. Calculate and Monitor only read what they are
// given; a Tree grows by Leaf and a Ledger by Book and Decay, which are for one
// goroutine at a time.
package tickets
