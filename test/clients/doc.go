// Package clients tests execd standalone with the programs through which people use a batch system:
// workflow engines, libraries, portals. It runs the programs that Debian has. It replays others: a
// test sends the same commands as the program's public source, and reads the answers with the
// program's regular expressions. docs/clients.md has a row for each program.
package clients
