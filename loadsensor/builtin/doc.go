// Package builtin measures the load of this host: the load parameters of load_parameters(5) with
// the names, units and formats of the original, and some additional ones.
//
// Other projects should not import this package: it may change at any time.
//
// A value that cannot be read is omitted, and the reason is returned with the values; no value is
// guessed. All values describe the whole host: a control group or container around this process has
// no effect, unless the kernel shows the container's own numbers in /proc.
//
// The values do not include those of external load sensors (package external).
//
// A Reader may be used from several goroutines. Only one file of this package imports gopsutil, so
// that a new major version changes only that file.
package builtin
