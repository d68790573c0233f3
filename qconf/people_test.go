package qconf

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestManagersOperatorsAndHosts(t *testing.T) {
	fsys := fstest.MapFS{
		"managers": {Data: []byte("# ours\nmia\n\nanton\nmia\n")}, "operators": {Data: []byte("olga")},
		"adminhosts": {Data: []byte("node1\n")}, "submithosts": {Data: nil},
	}
	c, err := Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Managers(); !slices.Equal(got, []string{"anton", "mia"}) {
		t.Errorf("the managers are %q", got)
	}
	if got := c.Operators(); !slices.Equal(got, []string{"olga"}) {
		t.Errorf("the operators are %q", got)
	}
	if len(c.AdminHosts()) != 1 || len(c.SubmitHosts()) != 0 {
		t.Errorf("the hosts are %q and %q", c.AdminHosts(), c.SubmitHosts())
	}
	// What the directory lacks is that of the base.
	next, err := Load(fstest.MapFS{"managers": {Data: []byte("zoe")}}, c)
	if err != nil || !slices.Equal(next.Managers(), []string{"zoe"}) || !slices.Equal(next.Operators(), []string{"olga"}) || len(c.Managers()) != 2 {
		t.Errorf("%q, %q, %v", next.Managers(), next.Operators(), err)
	}
	_, err = Load(fstest.MapFS{"managers": {Data: []byte("zoe\nno body\n")}, "adminhosts": {Data: []byte("@group\n")}}, nil)
	if err == nil || len(Errors(err)) != 2 {
		t.Errorf("invalid names are accepted: %v", err)
	}
}

func TestWithoutShareTree(t *testing.T) {
	c, err := Load(fstest.MapFS{"sharetree": {Data: []byte("id=0\nname=Root\ntype=0\nshares=1\nchildnodes=NONE\n")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.WithoutShareTree(); n.ShareTree() != nil || c.ShareTree() == nil {
		t.Error("the share tree is not that of one cluster only")
	}
}
