// Package command runs the same command lines with a real Grid Engine and with package
// cell/command, and compares their output on both streams and their exit statuses.
package command
