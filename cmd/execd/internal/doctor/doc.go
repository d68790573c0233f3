// Package doctor reports which guarantees of Grid Engine this host can enforce, by which means, and
// what would improve them.
//
// Probe collects facts, Examine evaluates them, and a Report prints the result as a table or as
// JSON. Probe cleans up: it removes the groups that it creates, and a systemd scope ends with it.
// Only Probe accesses the kernel.
package doctor
