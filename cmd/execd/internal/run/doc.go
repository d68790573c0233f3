// Package run is the command execd run: it runs one job on this host in the foreground, without a
// daemon. It reads options and configuration, starts the job and collects its result through
// package launch, passes on the terminal's signals, and reports the result on standard error, in
// JSON, and by the exit status.
package run
