// Command summary runs go test with its arguments and says what became of it:
// go test's own line for each package, the output of what failed, the reason of
// each skip, the attributes (testing.T.Attr) with which tests report a measure or
// a count, and at the end one line "N passed, N failed, N skipped".
//
// go test alone hides the reasons of skips unless all output is asked for, and
// what a test skips here depends on the machine. With -v in the arguments the
// output of the tests that passed is shown, too.
//
// The exit status is 0 when go test succeeded and nothing failed, else 1.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

func main() {
	args := os.Args[1:]
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	s := newSummary(os.Stdout, slices.Contains(args, "-v"))
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
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if s.failed > 0 {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "cannot run go test: %v\n", err)
	os.Exit(1)
}
