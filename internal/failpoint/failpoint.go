//go:build !failpoint

package failpoint

// At marks a place where a test may kill the program.
func At(string) {}

// AtOf calls At(kind + "-" + name), for a name that is not known at compile time.
func AtOf(_, _ string) {}

// Environment returns the variables that pass the failpoint on to child processes.
func Environment() []string { return nil }
