// Package quota applies resource quota sets (sge_resource_quota(5)): it finds the rule of each set
// that applies to a job at a place, counts the usage under the rule, and checks whether the
// requests of the job still fit.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// Compile makes Sets of the rules. Sets.For finds the rules for a Consumer, once for all its jobs,
// and Applicable.Demand adds what a job requests, once for all jobs that request the same. The
// checks for each place, Demand.Check or a Collector for parallel jobs, only look up numbers and do
// not allocate. Usage counts the usage of jobs, and List shows it as qquota(1) does.
//
// It does not parse rules (package qconf does), and does not check whether a place has a resource:
// a quota only limits. A caller that needs future usage records it by Counter (see Demand.Claims).
// Jobs of advance reservations are exempt from quotas: do not check them here.
//
// It is pure. Sets cache consumers, so Sets and all values made from them may be used by one
// goroutine at a time only.
package quota
