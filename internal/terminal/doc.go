// Package terminal connects the terminal of the caller with one that is somewhere else,
// such as that of an interactive job: what is typed goes there byte by byte, and the
// size of the window follows. What has no terminal is connected through pipes.
package terminal
