// Package lazyregexp compiles regular expressions on first use. All commands are one executable,
// and most of its calls use none of the expressions: compiling them at the start would slow down
// every qsub and qstat.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns the function that gives a regular expression; it panics if that is none. It may
// be called from several goroutines.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
