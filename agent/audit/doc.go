// Package audit keeps the audit log of a daemon: who has changed what, what it was and what it
// is now, and what was refused. A record is a line of JSON in a file that only root can read, and
// where there is one, an entry of the systemd journal.
//
// Other projects should not import this package: it may change at any time.
//
// The format, and what is promised about it, is docs/audit.md.
//
// A Log may be used from several goroutines; a nil *Log keeps nothing.
package audit
