// Package view makes of a cell what package qstat shows: the jobs, queue instances,
// hosts, quotas, advance reservations and the share tree, at a time.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Numbers of priorities and tickets are those of the last scheduling run, as in the
// original; loads and what is left of consumables are those of the moment.
//
// The package is pure. A View reads a cell, which must not change meanwhile.
package view
