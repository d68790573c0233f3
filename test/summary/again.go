package main

import (
	"fmt"
	"regexp"
	"strings"
)

// failure is a test that failed itself, and not because of a subtest.
type failure struct {
	pkg, test string
	race      bool // the race detector has reported it
}

// pattern returns the argument of go test -run that selects only this test.
func (f failure) pattern() string {
	names := strings.Split(f.test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return strings.Join(names, "/")
}

// again runs failed tests again, if there are at most most of them. run runs the tests of pkg that
// match pattern.
func (s *summary) again(most int, run func(pkg, pattern string) *summary) {
	if s.died || len(s.failures) != s.failed || s.failed > most {
		return // some failures are not those of tests
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
