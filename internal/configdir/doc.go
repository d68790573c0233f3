// Package configdir changes configuration directories: files as qconf prints them, one for each
// object (qconf.Load has the layout). It writes and removes single objects atomically: a reader
// sees each file either in the old or in the new form, even after a power loss. It also writes
// whole directories atomically.
//
// It does not read objects, and does not know whether they are right: that is package qconf.
//
// It touches nothing outside of the directory, whatever links are in it. A Dir may be used by
// several goroutines; changes by several goroutines or processes do not mix within a file.
package configdir
