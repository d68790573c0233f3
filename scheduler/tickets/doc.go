// Package tickets computes the tickets of jobs under a site's policies: the share tree, the
// functional and the override policy, and their dependencies (sge_priority(5), ticket policy;
// sched_conf(5), policy_hierarchy; share_tree(5)).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Calculate computes the tickets of the pending and running tasks of a scheduling run. A Ledger
// holds the usage of users and projects between runs, and Tree.Monitor returns the rows of
// sge_share_mon(1). Package priority computes the order of dispatch from the tickets.
//
// Users, projects and departments are indexes into slices of the caller. The package is pure: the
// time is an argument. Calculate and Monitor only read their arguments. Tree.Leaf, Ledger.Book and
// Ledger.Decay change their receivers: call them from one goroutine at a time.
package tickets
