// Package view converts the state of a cell at a time into the types that package qstat prints:
// jobs, queue instances, hosts, quotas, advance reservations and the share tree.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Priorities and tickets are those of the last scheduling run, as in Grid Engine; loads and free
// consumables are current.
//
// The package is pure. A View reads a cell, which must not change meanwhile.
package view
