// Package terminal connects the caller's terminal with a remote one, such as an interactive job's:
// it passes on the input byte by byte, and changes of the window size. Programs without a terminal
// are connected through pipes.
package terminal
