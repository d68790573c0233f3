//go:build !failpoint

package failpoint

// At is a place where a program may be killed.
func At(string) {}

// AtOf is At(kind + "-" + name), for a name that is not known when the program is
// built.
func AtOf(_, _ string) {}

// Environment returns what processes have in their environment that are to be killed, too.
func Environment() []string { return nil }
