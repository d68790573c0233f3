// Package qstat shows jobs, queue instances, hosts, quotas, reservations and share trees in three
// forms: as text, byte for byte the same as qstat, qhost, qquota, qrstat and sge_share_mon of Grid
// Engine 8.1.9; as XML with the elements of these commands' -xml; and as JSON.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// The input is plain data with all values computed. The package decides nothing, selects nothing
// (the caller implements qstat -u, -q, -s and similar options), and uses neither a scheduler nor a
// master. It only sorts the lists that the commands sort.
//
// # Order
//
// Running jobs come first. qstat sorts them by job number and keeps the given order of their tasks;
// with -f, -F, -explain, -urg, -g d or -g t it goes through the queue instances instead, and sorts
// by job number within each of them. Pending jobs follow, sorted by priority, the highest first,
// then by job number; all rows of a job stay together, at the position of the job's first row.
// Finished jobs come last, in the given order, which is the order of their ends. Queue instances
// are sorted by sequence number, queue name and host name. All other lists keep their order.
//
// # Use
//
// Functions append to a slice, as strconv.AppendInt does, and need no memory beyond
// that and an index of the rows. The package is pure: no I/O, no clock, no time zone
// but the given one. Its functions may be called from several goroutines.
package qstat
