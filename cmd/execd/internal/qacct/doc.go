// Package qacct is the command qacct(1): what accounting files say of jobs that have
// ended, one by one or summed up. It reads classic lines and lines of JSON (package
// accounting), mixed if need be, one after the other: the size of a file does not matter.
//
// It reads files as whoever calls it, and asks no daemon. What it prints is what qacct of
// Grid Engine 8.1.9 prints, byte for byte; what goes beyond that stands at the end of a
// record, under names of its own. "Tested" in a comment means: seen there.
package qacct
