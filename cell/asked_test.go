package cell

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/submit"
)

// TestSharedRequests checks that jobs with similar requests share the common part, and each keeps its
// own request.
func TestSharedRequests(t *testing.T) {
	lines := [][]string{
		{"a.sh"},
		{"a.sh"},
		{"a.sh", "1"},
		{"a.sh", ""},
		{"b.sh"},
		{"-N", "x", "a.sh", "1", "2"},
		{"-o", "/out/1", "a.sh"},
		{"-o", "/out/1,n1:/out/2", "-e", "/err", "a.sh"},
		{"-wd", "/work", "a.sh"},
		{"-v", "A=1,B=2", "a.sh"},
		{"-v", "A=1,B=3", "a.sh"},
		{"-v", "A=1,B=\xff", "a.sh"},
		{"-hold_jid", "1,2", "a.sh"},
		{"-ac", "A=\xff", "a.sh"},
		{"-ac", "A=\xfe", "a.sh"},
		{"-l", "h_rt=1", "a.sh"},
		{"-t", "1-3", "a.sh"},
		{"-b", "y", "a.sh"},
	}
	var want []*submit.Request
	c, problems := Restore(start, small.cluster(t), Options{}, func(func(string, []byte) bool) {})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for i, line := range lines {
		script := func(string) ([]byte, error) { return []byte("#!/bin/sh\necho " + fmt.Sprint(i/4) + "\n"), nil }
		r, err := submit.Parse(submit.Input{Args: line, Master: true, ReadFile: script, Cwd: "/home"})
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		copied := *r
		want = append(want, &copied)
		if _, err := c.Submit(start, Caller{User: "alice", Origin: &Origin{UID: 1000 + i%2, GID: 1000}}, r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	records := map[string][]byte{}
	for _, change := range c.Changes() {
		records[change.Key] = change.Value
	}
	again, problems := Restore(start, small.cluster(t), Options{}, func(yield func(string, []byte) bool) {
		for key, value := range records {
			if value != nil && !yield(key, value) {
				return
			}
		}
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, c := range map[string]*Cell{"submitted": c, "restored": again} {
		shared := map[*submit.Request]bool{}
		for i, j := range c.Jobs() {
			if diff := cmp.Diff(want[i], j.Request()); diff != "" {
				t.Errorf("%s: %q (-asked +kept)\n%s", name, lines[i], diff)
			}
			if j.Name() != want[i].Name || string(j.script()) != string(want[i].Script) || j.Origin.UID != 1000+i%2 {
				t.Errorf("%s: %q: %s, %q, %+v", name, lines[i], j.Name(), j.script(), j.Origin)
			}
			shared[j.asked] = true
		}
		if n := len(c.commons.known); len(shared) != n || n >= len(lines)*2/3 {
			t.Errorf("%s: %d jobs have %d requests of %d", name, len(lines), len(shared), n)
		}
	}
}
