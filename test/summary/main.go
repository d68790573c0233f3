// Command summary runs go test with its arguments and prints a summary: go test's own line for each
// package, the output of failed tests, the reason of each skip, the attributes (testing.T.Attr)
// with which tests report a measurement or a count, and at the end one line "N passed, N failed, N
// skipped".
//
// Without -v, go test hides the reasons of skips, and which tests are skipped here depends on the
// machine. With -v in the arguments the output of passed tests is shown, too.
//
// With -again N, if at most N tests failed, each of them is run again by itself. A test that then
// passes counts as passed, and is named: "--- AGAIN: PACKAGE TEST". Such a test has a defect that
// must be fixed, but the tested code has not failed. Failures found by the race detector, packages
// that do not build and processes that died are not run again.
//
// The packages come last, behind "--":
//
//	summary [-again N] [flags of go test] -- [packages]
//
// The exit status is 0 when go test succeeded and nothing failed, else 1.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

func main() {
	args := os.Args[1:]
	again := 0
	if len(args) > 1 && args[0] == "-again" {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			fatal(fmt.Errorf("-again %q: a number of tests is needed", args[1]))
		}
		again, args = n, args[2:]
	}
	flags, packages := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		flags, packages = args[:i], args[i+1:]
	}
	s := newSummary(os.Stdout, slices.Contains(flags, "-v"))
	s.run(slices.Concat(flags, packages)...)
	s.again(again, func(pkg, pattern string) *summary {
		second := newSummary(os.Stdout, s.verbose)
		second.run(slices.Concat(flags, []string{"-run", pattern, pkg})...)
		return second
	})
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if s.failed > 0 {
		os.Exit(1)
	}
}

// run counts what becomes of one go test.
func (s *summary) run(args ...string) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	readErr := s.read(events)
	waitErr := cmd.Wait()
	if readErr != nil {
		fatal(readErr)
	}
	if _, ended := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !ended {
		fatal(waitErr)
	}
	if waitErr != nil && s.failed == 0 {
		// go test has failed before any package: a wrong flag, no such package.
		s.failed++
	}
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "cannot run go test: %v\n", err)
	os.Exit(1)
}
