package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// outcome is what a test in a guest has come to.
type outcome struct {
	name     string // the last part
	action   string // pass, fail or skip; empty if it has not ended
	output   strings.Builder
	attrs    [][2]string
	children []*outcome
}

// replay makes subtests of what the tests of one package have printed, as go test
// -json would have reported them, so that each counts here.
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
	switch failed := t.Failed(); {
	case status < 0:
		t.Error("the guest has ended before the tests")
	case status != 0 && !failed:
		t.Errorf("no test has failed, but their program has ended with status %d", status)
	case status == 0 && failed:
		t.Error("a test has failed, but their program has ended with status 0")
	case len(all.children) == 0:
		t.Error("there was no test to run: see which ones the table names")
	case !all.passedAny() && !failed:
		t.Error("all tests were skipped: they need what this guest is not")
	}
}

// collect makes a tree of events.
func collect(events []byte) (*outcome, error) {
	all := &outcome{}
	known := map[string]*outcome{}
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Output, Key, Value string }
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
		}
	}
	return all, nil
}

// run is the test once more, with what it has come to.
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

func (o *outcome) passedAny() bool {
	for _, c := range o.children {
		if c.passedAny() {
			return true
		}
	}
	return o.action == "pass" && len(o.children) == 0
}
