package main

import (
	"fmt"
	"regexp"
	"strings"
)

// failure is a test that failed by itself, not through a subtest.
type failure struct {
	pkg, test string
	race      bool // the race detector has found something in it
}

// pattern returns the argument of go test -run that selects only this test.
func (f failure) pattern() string {
	names := strings.Split(f.test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return strings.Join(names, "/")
}

// again runs what failed once more, where it is no more than most tests. run runs
// the tests of pkg that pattern selects.
func (s *summary) again(most int, run func(pkg, pattern string) *summary) {
	if s.died || len(s.failures) != s.failed || s.failed > most {
		return // not all of it was the failure of a test
	}
	for _, f := range s.failures {
		if f.race {
			return
		}
	}
	for _, f := range s.failures {
		second := run(f.pkg, f.pattern())
		if second.failed > 0 || second.passed == 0 {
			continue
		}
		s.failed--
		s.passed++
		fmt.Fprintf(s.out, "--- AGAIN: %s %s: failed among the others, passed by itself\n", f.pkg, f.test)
	}
}
