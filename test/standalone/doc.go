// Package standalone tests execd standalone as users meet it: the daemon and the commands
// are processes, and what is looked at is what they print and leave behind.
package standalone
