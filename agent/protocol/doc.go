// Package protocol contains the vocabulary that agents and masters share: orders, states of a job,
// codes of errors, and grants of slots. Package agent uses it for its own types, and package
// agent/api for its messages.
//
// Other projects may import this package: docs/compatibility.md says what may change. Masters do not
// need it directly, because agent/api has the same names. The package imports only small packages of
// the standard library.
package protocol
