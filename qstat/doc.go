// Package qstat shows jobs, queue instances, hosts, quotas, reservations and share
// trees the way people and their scripts read them: as text, byte for byte what
// qstat, qhost, qquota, qrstat and sge_share_mon of Grid Engine 8.1.9 print, as XML in
// the elements of those commands' -xml, and as JSON.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// What is shown is plain data, with everything computed: this package decides
// nothing, selects nothing (qstat -u, -q, -s and the like are the caller's) and knows
// neither a scheduler nor a master. It orders what the commands order.
//
// # Order
//
// Jobs that run come first. qstat lists them by job number, tasks as they are given;
// with -f, -F, -explain, -urg, -g d or -g t it goes through the queue instances
// instead, and lists by job number within each of them. Jobs that wait follow by
// priority, the highest first, then by job number; all rows of a job stay together,
// and the job's place is that of its first row. Jobs that have ended come last, as they are
// given: in the order in which they ended. Queue instances are ordered by sequence number, name of the queue and name
// of the host. All else keeps the order in which it is given.
//
// # Use
//
// Functions append to a slice, as strconv.AppendInt does, and need no memory beyond
// that and an index of the rows. The package is pure: no I/O, no clock, no time zone
// but the given one. Its functions may be called from several goroutines.
package qstat
