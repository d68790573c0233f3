// Package qacct is the command qacct(1): it prints the accounting records of finished jobs, one by
// one or summed up. It reads classic lines and JSON lines (package accounting), in any mix. It
// reads line by line, so the size of a file does not matter.
//
// It reads files with the rights of the caller, and usually contacts no daemon. Its output is byte
// for byte that of Grid Engine 8.1.9; additional fields follow at the end of a record, under names
// of their own. "Tested" in a comment means: observed there.
package qacct
