// Package value implements the values of complex attributes (complex(5)): it reads and prints
// values of the nine types, compares them by the relational operators, and adds up consumables.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It does not use the complex configuration, the places of values, or default requests.
//
// It is pure. All types are small values that may be copied, and all but Amount
// are immutable and may be used from any goroutine.
package value
