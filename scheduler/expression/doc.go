// Package expression holds the wildcard expressions of sge_types(5): patterns
// like lx2[46]-*, joined by ! & | and parentheses. Requests of string type,
// queue and host references, filters and dependencies are all written in them.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// An expression is compiled once and matched often: matching does not allocate.
// It knows neither complexes nor queues; which host is in which host group it
// is told by its caller.
//
// It is pure. What it returns is immutable and may be used from any goroutine.
package expression
