// Package command types the same command lines at a real Grid Engine and at package
// cell/command, and compares what they print, where, and their exit statuses.
package command
