package qconf

import (
	"testing"
	"testing/fstest"
)

// TestTypesOfTreeNodes checks that the name of a node of the share tree decides what it stands for,
// not its type.
func TestTypesOfTreeNodes(t *testing.T) {
	fsys := fstest.MapFS{
		"projects/p1": {Data: []byte("name p1\n")}, "users/alice": {Data: []byte("name alice\n")},
		"sharetree": {Data: []byte("id=0\nname=Root\ntype=1\nshares=1\nchildnodes=1,2\nid=1\nname=p1\ntype=0\nshares=5\nchildnodes=3\n" +
			"id=2\nname=alice\ntype=1\nshares=7\nchildnodes=NONE\nid=3\nname=default\ntype=1\nshares=7\nchildnodes=NONE\n")},
	}
	c, err := Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := c.ShareTree().Root
	if root.Project || !root.Children[0].Project || root.Children[1].Project || !root.Children[0].Children[0].Default() {
		t.Errorf("not what the names say:\n%s", c.ShareTree().Format())
	}
	fsys["sharetree"] = &fstest.MapFile{Data: []byte("id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=nosuch\ntype=1\nshares=5\nchildnodes=NONE\n")}
	if _, err := Load(fsys, nil); err == nil {
		t.Error("a node that is neither a user nor a project was taken")
	}
}
