// Package configdir changes configuration directories: files as qconf prints them, one for
// each object (qconf.Load has the layout). It writes and removes single objects so that
// whoever reads the directory at any moment, also after a power loss, sees a file as it was
// or as it is to be; and writes whole directories, all or nothing.
//
// It does not read objects, and does not know whether they are right: that is package qconf.
//
// Nothing outside of a directory is touched through it, whatever links are in it. A Dir may
// be used from any goroutine; changes by several of them, or by several processes, do not
// mix within a file.
package configdir
