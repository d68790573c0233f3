// Package run runs one job on this host for the person who waits for it:
// the command execd run. No daemon is involved. It reads options and
// configuration, has package launch make and collect the job, passes the
// terminal's signals on, and says what happened: on standard error, in JSON, and
// by the exit status.
package run
