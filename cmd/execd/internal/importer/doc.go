// Package importer is the command execd import: it makes a configuration directory of the
// configuration of a Grid Engine cell, as qconf printed it, as its master keeps it in files,
// or as its master answers now; and says what of it is not taken, and why.
//
// What an object is, package qconf knows; how a directory is written, package configdir.
package importer
