// Package lazyregexp compiles regular expressions when they are first used. All commands are
// one executable, and most calls of it need none of them: compiled at its start they would
// cost each qsub and each qstat.
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
