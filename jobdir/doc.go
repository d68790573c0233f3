// Package jobdir reads and writes the files of a job on disk: its directory in the spool area
// (active_jobs/<job>.<task>), its script, and its TMPDIR.
//
// Other projects should not import this package: it may change at any time.
//
// The directory has the layout and the formats of Grid Engine 8.1.9, so that its sge_execd can
// drive this project's shepherd, and this project's daemon could drive its sge_shepherd. Data that
// these formats cannot hold is in additional keys after the last key of the original, or in
// additional files.
//
// Where the original is unsafe, this package differs:
//
//   - config is read strictly, in the order in which it is written, so that a
//     newline in a value cannot add a key. The exact arguments are in a file of
//     their own.
//   - Only the owner can read config, environment and arguments (mode 0600, not
//     0644). The files error, exit_status and trace belong to the daemon. In the
//     original they belong to the user, who can report any result with them.
//   - A script is closed to users other than its own (mode 0500, not 0755 of the
//     administrator).
//   - A TMPDIR is always a new directory of mode 0700, even if its name must be
//     changed for that. Its removal follows no link and enters no mount.
//
// The package decides nothing about a job: it starts no process and looks up no users. It is linked
// into the supervisor, of which each job has one, and therefore imports very little: no fmt, no
// encoding, no regular expressions.
//
// It reaches everything below a directory through an open descriptor of that directory, name by
// name and without following links, since users can write to some of the places and rename others
// at any time. Parsers are pure functions of bytes. All functions may be called from any goroutine,
// and a Dir and a Spool may be used from several goroutines once they are open.
package jobdir
