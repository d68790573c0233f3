// Package importer is the command execd import. It creates a configuration directory from the
// configuration of a Grid Engine cell: from output of qconf, from the files of its master, or from
// the answers of a running master. It lists everything that it skips, with the reason.
//
// Package qconf defines the objects; package configdir writes the directory.
package importer
