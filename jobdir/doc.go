// Package jobdir is what is on disk for a job: its directory in the spool area
// (active_jobs/<job>.<task>), its script, and its TMPDIR.
//
// Other projects should not import this package: it may change at any time.
//
// The directory has the layout and the formats of Grid Engine 8.1.9, so that
// its sge_execd can drive our shepherd and its sge_shepherd could be driven by
// us. What these formats cannot carry stands in keys behind the last one of
// the original, or in files of our own beside its files.
//
// Where the original is not safe, ours differs:
//
//   - config is read strictly, in the order in which it is written, so that a
//     newline in a value adds nothing to it; arguments have a file of their own
//     in which they are what they are.
//   - config, environment and arguments can be read by their owner only (0600,
//     not 0644); error, exit_status and trace belong to the daemon and not to
//     the user, who could report any result with them.
//   - A script belongs to its user and is closed to others (0500, not 0755 of
//     the administrator).
//   - A TMPDIR is always a new directory, of mode 0700, whatever its name comes
//     to be, and its removal follows no link and enters no mount.
//
// The package does not decide anything about a job: it neither starts a process
// nor knows users by name. It is linked into the supervisor that runs once per
// job, and therefore imports next to nothing: no fmt, no encoding, no regular
// expressions.
//
// Everything below a directory is reached through an open descriptor of it,
// name by name and without following links, since users may write in some of
// the places and rename others at any time. Parsers are pure functions of
// bytes and may be called from any goroutine. A Dir and a Spool may be used
// from several goroutines once they are open.
package jobdir
