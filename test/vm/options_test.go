package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	m, s, err := parse([]string{
		"-cpus", "2x3x4", "-nodes", "2", "-user", "alice", "-env", "A=1", "-env", "B=x=y", "-file", "/a:/b", "-timeout", "5s",
		"dir/my.test", "-test.v", "-user", "nobody",
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Sockets != 2 || m.Cores != 3 || m.Threads != 4 || m.Nodes != 2 || m.Timeout != 5*time.Second ||
		m.Files["/b"] != "/a" || m.Files["/guest/my.test"] != "dir/my.test" {
		t.Errorf("%+v", m)
	}
	// What follows the program is the program's.
	if want := []string{"/guest/my.test", "-test.v", "-user", "nobody"}; !slices.Equal(s.Argv, want) || s.User != "alice" || !slices.Equal(s.Env, []string{"A=1", "B=x=y"}) {
		t.Errorf("%+v", s)
	}
	for _, args := range []string{"", "-cpus 2x2 a", "-cpus 2x2x2x2 a", "-cpus 0x1x1 a", "-file /a a", "-nosuch a"} {
		if _, _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
