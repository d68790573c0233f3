// Package lazyregexp compiles regular expressions on first use. All commands are one executable, and most
// commands use none of the executable's expressions: compiling them at the start would slow down every
// qsub and qstat.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. The function panics if text is not a
// valid expression. Several goroutines may call it.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
