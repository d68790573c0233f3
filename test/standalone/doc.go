// Package standalone tests execd standalone from the user's point of view: it runs the daemon and
// the commands as processes, and checks their output and files.
package standalone
