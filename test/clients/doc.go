// Package clients tests execd standalone with the programs that people reach a batch system
// through: workflow engines, libraries, portals. Some of them run (those that Debian has), others
// are replayed: a test sends what the program sends, as its public source has it, and reads the
// answers with the program's regular expressions. docs/clients.md has a row for each.
package clients
