// Package builtin measures the load of this host: the load parameters of
// load_parameters(5) with the names, units and formats of the original, and some that
// the original has no name for.
//
// Other projects should not import this package: it may change at any time.
//
// A value that cannot be read is left out, and the reason is told beside the values;
// it is never guessed. Everything is of the whole host: a control group or container
// around this process changes nothing, except where the kernel shows the
// container's own numbers in /proc.
//
// What is measured does not include external load sensors (package external).
//
// A Reader may be used from several goroutines. gopsutil is behind it and nowhere
// else, so that its next major version is a change of one file.
package builtin
