package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// outcome is the result of a test in a guest.
type outcome struct {
	name     string // the last part
	action   string // pass, fail or skip; empty if it has not ended
	output   strings.Builder
	attrs    [][2]string
	children []*outcome
}

// slow is the number of seconds above which the replay of a test reports how long the test took in the
// guest. The replay itself takes no time.
const slow = 10

// replay reports each test that a package has run in the guest as a subtest of t. printed is the output of
// the tests with -test.v.
func replay(t *testing.T, printed []byte, status int) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(printed)
	events, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot read the results: %v\n%s", err, printed)
	}
	all, err := collect(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.children {
		o.run(t)
	}
	_, _ = fmt.Fprint(t.Output(), all.output.String())
	if wrong := all.verdict(status, t.Failed()); wrong != "" {
		t.Error(wrong)
	}
}

// verdict returns errors other than failed tests.
func (o *outcome) verdict(status int, failed bool) string {
	switch {
	case status < 0:
		return "the guest has ended before the tests"
	case status != 0 && !failed:
		return fmt.Sprintf("no test has failed, but their program has ended with status %d", status)
	case status == 0 && failed:
		return "a test has failed, but their program has ended with status 0"
	case len(o.children) == 0:
		return "there was no test to run: see which ones the table names"
	}
	if skipped := o.skipped(); len(skipped) > 0 {
		return "no test may skip in a guest: exclude in the table the tests that do not fit this guest: " + strings.Join(skipped, ", ")
	}
	return ""
}

// collect makes a tree of events.
func collect(events []byte) (*outcome, error) {
	all := &outcome{}
	known := map[string]*outcome{}
	for line := range bytes.Lines(events) {
		var e struct {
			Action, Test, Output, Key, Value string
			Elapsed                          float64
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("cannot read the results: %w: %q", err, line)
		}
		if e.Test == "" {
			// What the program prints outside of tests, e.g. when it panics.
			if e.Action == "output" && e.Output != "PASS\n" && e.Output != "FAIL\n" {
				all.output.WriteString(e.Output)
			}
			continue
		}
		o := known[e.Test]
		if o == nil {
			parent, name := all, e.Test
			for i := strings.LastIndexByte(e.Test, '/'); i > 0; i = strings.LastIndexByte(e.Test[:i], '/') {
				if p := known[e.Test[:i]]; p != nil {
					parent, name = p, e.Test[i+1:]
					break
				}
			}
			o = &outcome{name: name}
			known[e.Test] = o
			parent.children = append(parent.children, o)
		}
		switch e.Action {
		case "output":
			if text := strings.TrimLeft(e.Output, " "); !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") {
				o.output.WriteString(e.Output)
			}
		case "attr":
			o.attrs = append(o.attrs, [2]string{e.Key, e.Value})
		case "pass", "fail", "skip":
			o.action = e.Action
			if e.Elapsed > slow {
				o.attrs = append(o.attrs, [2]string{"took", fmt.Sprintf("%.0f s", e.Elapsed)})
			}
		}
	}
	return all, nil
}

// run repeats the result of the test as a subtest.
func (o *outcome) run(t *testing.T) {
	t.Run(o.name, func(t *testing.T) {
		for _, a := range o.attrs {
			t.Attr(a[0], a[1])
		}
		for _, c := range o.children {
			c.run(t)
		}
		_, _ = fmt.Fprint(t.Output(), o.output.String())
		switch o.action {
		case "skip":
			t.SkipNow()
		case "fail":
			t.Fail()
		case "":
			t.Error("the test has not ended")
		}
	})
}

// skipped returns the names of the skipped tests below, in the format of -skip.
func (o *outcome) skipped() []string {
	var names []string
	for _, c := range o.children {
		if c.action == "skip" {
			names = append(names, c.name)
		}
		for _, name := range c.skipped() {
			names = append(names, c.name+"/"+name)
		}
	}
	return names
}

func TestCollect(t *testing.T) {
	const text = `{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Test":"TestA/b/c"}
{"Action":"attr","Test":"TestA/b/c","Key":"k","Value":"v"}
{"Action":"output","Test":"TestA/b/c","Output":"    a_test.go:7: wrong\n"}
{"Action":"output","Test":"TestA/b/c","Output":"    --- FAIL: TestA/b/c (0.00s)\n"}
{"Action":"fail","Test":"TestA/b/c"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"output","Output":"panic: no\n"}
{"Action":"output","Output":"FAIL\n"}
{"Action":"fail"}
`
	all, err := collect([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	all.describe(&b, "")
	const want = `  "panic: no\n" []
TestA fail "" []
TestA/b/c fail "    a_test.go:7: wrong\n" [[k v]]
TestB  "" []
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
	if _, err := collect([]byte("no event\n")); err == nil {
		t.Error("a line that is not an event gives no error")
	}
}

func (o *outcome) describe(b *strings.Builder, parent string) {
	name := strings.TrimPrefix(parent+"/"+o.name, "/")
	fmt.Fprintf(b, "%s %s %q %v\n", name, o.action, o.output.String(), o.attrs)
	for _, c := range o.children {
		c.describe(b, name)
	}
}

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		actions []string
		status  int
		failed  bool
		want    string
	}{
		"all tests pass":                        {[]string{"pass", "pass"}, 0, false, ""},
		"a test fails":                          {[]string{"fail"}, 1, true, ""},
		"a guest that stopped too early":        {[]string{"pass"}, -1, false, "before the tests"},
		"a program that dies between its tests": {[]string{"pass"}, 2, false, "status 2"},
		"a program that hides a failure":        {[]string{"fail"}, 0, true, "status 0"},
		"a table that selects no test":          {nil, 0, false, "no test to run"},
		"a test that does not fit the guest":    {[]string{"pass", "skip"}, 0, false, "this guest: TestA/b1"},
		"a failure besides a skip":              {[]string{"fail", "skip"}, 1, true, "this guest: TestA/b1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := &outcome{name: "TestA", action: "pass"}
			all := &outcome{}
			for i, action := range test.actions {
				all.children = []*outcome{a}
				a.children = append(a.children, &outcome{name: fmt.Sprint("b", i), action: action})
			}
			if got := all.verdict(test.status, test.failed); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
