// Package value holds the values of complex attributes (complex(5)): how those of
// the nine types are read, printed, compared by the nine relational operators,
// and added up where they are consumed.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It does not know which attributes there are, at which layer a value was found,
// or what is requested by default.
//
// It is pure. All types are small values that may be copied, and all but Amount
// are immutable and may be used from any goroutine.
package value
