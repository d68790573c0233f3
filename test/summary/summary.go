package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package in the events of a build
	Test       string
	Output     string
	Key, Value string
}

// test is the state of an unfinished test.
type test struct {
	output      strings.Builder
	children    bool
	childFailed bool
}

// pkg is the state of an unfinished package.
type pkg struct {
	tests    map[string]*test
	output   strings.Builder
	ran, bad bool // a test ran; one of them failed
	ended    bool // the last one has finished
}

// summary counts and prints the events of one go test.
type summary struct {
	out     io.Writer
	verbose bool

	passed, failed, skipped int
	failures                []failure // the failures that belong to tests
	died                    bool      // a package stopped before its last test

	pkgs map[string]*pkg
}

func newSummary(out io.Writer, verbose bool) *summary {
	return &summary{out: out, verbose: verbose, pkgs: make(map[string]*pkg)}
}

func (s *summary) read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if line[0] != '{' || json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(s.out, "%s", line)
			} else {
				s.event(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the events: %w", err)
		}
	}
}

func (s *summary) event(e event) {
	if e.Package == "" { // of a build; its failure is also an event of the package
		fmt.Fprint(s.out, e.Output)
		return
	}
	p := s.pkgs[e.Package]
	if p == nil {
		p = &pkg{tests: make(map[string]*test)}
		s.pkgs[e.Package] = p
	}
	if e.Test == "" {
		s.packageEvent(p, e)
		return
	}
	p.ran = true
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
	}
	switch e.Action {
	case "run":
		if parent := p.parent(e.Test); parent != nil {
			parent.children = true
		}
	case "output":
		if s.verbose || !isMark(e.Output) {
			t.output.WriteString(e.Output)
		}
	case "attr":
		fmt.Fprintf(s.out, "%s: %s %s\n", e.Test, e.Key, e.Value)
	case "pass", "fail", "skip":
		s.testOver(p, t, e)
		delete(p.tests, e.Test)
	}
}

func (s *summary) testOver(p *pkg, t *test, e event) {
	// A test with subtests is counted through these, unless it fails itself.
	leaf := !t.children
	switch e.Action {
	case "pass":
		if leaf {
			s.passed++
		}
		if s.verbose {
			fmt.Fprint(s.out, t.output.String())
		}
	case "skip":
		if leaf {
			s.skipped++
		}
		fmt.Fprintf(s.out, "--- SKIP: %s: %s\n", e.Test, reason(t.output.String()))
	case "fail":
		p.bad = true
		if leaf || !t.childFailed {
			s.failed++
			s.failures = append(s.failures, failure{e.Package, e.Test, strings.Contains(t.output.String(), "DATA RACE")})
		}
		if parent := p.parent(e.Test); parent != nil {
			parent.childFailed = true
		}
		fmt.Fprint(s.out, t.output.String())
	}
}

func (s *summary) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" && e.Output != "FAIL\n" {
			p.output.WriteString(e.Output)
		} else {
			p.ended = true
		}
		return
	case "fail":
		s.died = s.died || !p.ended
		if !p.bad { // did not build, or died during a test
			s.failed++
		}
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			fmt.Fprintf(s.out, "--- FAIL: %s (did not end)\n%s", name, p.tests[name].output.String())
		}
	case "pass", "skip":
	default:
		return
	}
	if line := p.output.String(); p.ran || e.Action == "fail" || !strings.Contains(line, "[no test files]") {
		fmt.Fprint(s.out, line)
	}
	delete(s.pkgs, e.Package)
}

// parent returns the test of which name is a subtest, or nil. If a name itself contains a slash,
// parent returns the nearest running test.
func (p *pkg) parent(name string) *test {
	for i := strings.LastIndexByte(name, '/'); i >= 0; i = strings.LastIndexByte(name, '/') {
		name = name[:i]
		if t := p.tests[name]; t != nil {
			return t
		}
	}
	return nil
}

// isMark reports whether a line of output is a line of go test without new information.
func isMark(line string) bool {
	return strings.HasPrefix(line, "=== ")
}

// reason returns the reason that a skipped test has printed.
func reason(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || isMark(line) || strings.HasPrefix(line, "--- ") {
			continue
		}
		// "file_test.go:12: text"
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(text, ": "); ok {
				line = text
			}
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "no reason given"
	}
	return strings.Join(lines, " ")
}
