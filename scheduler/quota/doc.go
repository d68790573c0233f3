// Package quota says what resource quota sets leave to a job
// (sge_resource_quota(5)): which rule of each set is for it at a place, what is
// used under that rule, and whether what the job asks for fits beside it.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Compile makes Sets of the rules. Sets.For finds the rules for a Consumer, once
// for all its jobs, and Applicable.Demand adds what a job requests, once for all jobs
// that request the same. What is asked for each place then, Demand.Check or a
// Collector for parallel jobs, looks up numbers and does not allocate. Usage counts
// what jobs use, and List shows it as qquota(1) does.
//
// It is not for reading rules, which package qconf does, nor for whether a resource
// exists at a place: a quota limits, and offers nothing. Whoever needs to know what
// is used later than now keeps that itself, by Counter (see Demand.Claims). Jobs of
// advance reservations are exempt from quotas: they are not to be asked for here.
//
// It is pure. Sets remember the consumers that they have been asked for, so that Sets
// and all that is made of them are for one goroutine at a time.
package quota
