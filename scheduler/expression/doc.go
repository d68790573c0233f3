// Package expression holds the wildcard expressions of sge_types(5): patterns
// like lx2[46]-*, joined by ! & | and parentheses. Requests of string type,
// queue and host references, filters and dependencies are all written in them.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// An expression is compiled once and matched often: matching does not allocate. The package does
// not use complexes or queues; the caller tells it which hosts belong to a host group.
//
// It is pure. All results are immutable and may be used by several goroutines.
package expression
