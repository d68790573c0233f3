// Package audit writes the audit log of a daemon: changes with their authors and the old and new
// values, and refused changes. A record is a line of JSON in a file that only root can read, and on
// hosts with a systemd journal also an entry there.
//
// Other projects should not import this package: it may change at any time.
//
// docs/audit.md describes the format and its guarantees.
//
// A Log may be used from several goroutines; a nil *Log discards all records.
package audit
