//go:build !failpoint

package failpoint

// At is a place where a program may be killed.
func At(string) {}

// AtOf is At(kind + "-" + name), for a name that is not known when the program is
// built.
func AtOf(_, _ string) {}

// Environment returns the variables that pass the failpoint on to child processes.
func Environment() []string { return nil }
