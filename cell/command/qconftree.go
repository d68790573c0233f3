package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// treeActions returns the options for the share tree.
func treeActions() []action {
	show := func(name, args, help string, values int, run func(*call, *given)) action {
		return action{option: option{name: name, args: args, values: values, help: help}, run: run}
	}
	change := func(name, args, help string, values, file int, run func(*call, *given)) action {
		return action{option: option{name: name, args: args, values: values, help: help}, run: run, by: managers, file: file}
	}
	return []action{
		show("-sstree", "", "show the sharetree", 0, (*call).showTree),
		show("-sst", "", "show a formatted sharetree", 0, (*call).showOutline),
		show("-bonsai", "", "show a formatted sharetree", 0, (*call).showOutline),
		show("-sstnode", "node_list", "show sharetree node(s)", 1, func(x *call, g *given) { x.showNodes(g, false) }),
		show("-rsstnode", "node_list", "show sharetree node(s) and its children", 1, func(x *call, g *given) { x.showNodes(g, true) }),
		change("-astree", "", "create/modify the sharetree, with an editor", 0, 0, (*call).editTree),
		change("-mstree", "", "modify/create the sharetree, with an editor", 0, 0, (*call).editTree),
		change("-Astree", "fname", "create/modify the sharetree from file", 1, 1, (*call).treeFromFile),
		change("-Mstree", "fname", "modify/create the sharetree from file", 1, 1, (*call).treeFromFile),
		change("-dstree", "", "delete the sharetree", 0, 0, (*call).deleteTree),
		change("-astnode", "node_shares_list", "add sharetree node(s)", 1, 0, func(x *call, g *given) { x.setNodes(g, true) }),
		change("-mstnode", "node_shares_list", "modify sharetree node(s)", 1, 0, func(x *call, g *given) { x.setNodes(g, false) }),
		change("-dstnode", "node_list", "delete sharetree node(s)", 1, 0, (*call).deleteNodes),
	}
}

func (x *call) showTree(*given) {
	tree := x.cluster().ShareTree()
	if tree == nil {
		x.fail(1, "no sharetree element")
		return
	}
	x.stdout.lines(tree.Format())
}

func (x *call) showOutline(*given) {
	tree := x.cluster().ShareTree()
	if tree == nil {
		x.warn("No sharetree")
		return
	}
	depth := map[*qconf.ShareNode]int{}
	tree.Walk(func(n, parent *qconf.ShareNode) {
		if parent != nil {
			depth[n] = depth[parent] + 1
		}
		x.say("%s%s=%d", strings.Repeat("   ", depth[n]), n.Name, n.Shares)
	})
}

// editTree runs -mstree, and -astree if the cell has no share tree.
func (x *call) editTree(g *given) {
	text := "id=0\nname=template\ntype=0\nshares=0\nchildnodes=NONE\n"
	if tree := x.cluster().ShareTree(); tree != nil {
		text = tree.Format()
	}
	next, ok := x.edited("sharetree", text)
	switch {
	case !ok:
	case string(next) == text:
		x.fail(1, "file unchanged")
	default:
		x.putTree("", next)
	}
}

func (x *call) treeFromFile(g *given) {
	data, ok := x.configured(g.value())
	if !ok {
		x.warn("error reading in file")
		return
	}
	x.putTree(g.value(), data)
}

func (x *call) putTree(file string, data []byte) {
	tree, err := qconf.ParseShareTree("", data)
	if err == nil && tree.Root == nil {
		x.fail(1, "error: the share tree has no node")
		return
	}
	if err != nil {
		x.notRead(file, err)
		return
	}
	if x.writeTree(tree) {
		x.warn("changed sharetree")
	}
}

func (x *call) writeTree(tree *qconf.ShareTree) bool {
	writes := []Write{{Path: shareTreeFile, Text: []byte(tree.Format())}}
	// A user object that a job created stays once it is in the tree.
	for _, u := range x.cell.AutomaticUsers() {
		named := false
		tree.Walk(func(n, _ *qconf.ShareNode) { named = named || n.Name == u.Name && !n.Project })
		if o, ok := x.find(userKind, u.Name); ok && named {
			writes = append(writes, Write{Path: userKind.path(u.Name), Text: []byte(o.Format(qconf.Wrapped))})
		}
	}
	if err := x.write(writes...); err != nil {
		x.refuseChange(nil, "", err)
		return false
	}
	return true
}

func (x *call) deleteTree(*given) {
	if x.cluster().ShareTree() == nil {
		x.fail(1, "sharetree does not exist")
		return
	}
	if err := x.write(Write{Path: shareTreeFile, Remove: true}); err != nil {
		x.refuseChange(nil, "", err)
		return
	}
	x.warn("%s removed sharetree list", x.who())
}

// tree returns a copy of the share tree that may be changed. If there is none, it prints an error
// and returns nil.
func (x *call) tree() *qconf.ShareTree {
	tree := x.cluster().ShareTree()
	if tree == nil || tree.Root == nil {
		x.warn("No sharetree")
		return nil
	}
	var clone func(n *qconf.ShareNode) *qconf.ShareNode
	clone = func(n *qconf.ShareNode) *qconf.ShareNode {
		c := *n
		c.Children = nil
		for _, child := range n.Children {
			c.Children = append(c.Children, clone(child))
		}
		return &c
	}
	return &qconf.ShareTree{Root: clone(tree.Root)}
}

// node returns the node at a path, and the one above it; nil for none. The root is "/".
func node(root *qconf.ShareNode, path string) (n, parent *qconf.ShareNode) {
	n = root
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(names) > 0 && names[0] == root.Name && child(root, names[0]) == nil {
		names = names[1:]
	}
	for _, name := range names {
		parent, n = n, child(n, name)
		if n == nil {
			return nil, parent
		}
	}
	return n, parent
}

func child(n *qconf.ShareNode, name string) *qconf.ShareNode {
	i := slices.IndexFunc(n.Children, func(c *qconf.ShareNode) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return n.Children[i]
}

// showNodes prints the shares of nodes with their children, and all below with -rsstnode.
func (x *call) showNodes(g *given, all bool) {
	tree := x.tree()
	if tree == nil {
		return
	}
	shown := 0
	for _, path := range list(g.value()) {
		n, _ := x.nodeAt(tree.Root, path)
		if n == nil {
			x.warn("Unable to locate %s in sharetree", path)
			continue
		}
		shown++
		var show func(n *qconf.ShareNode, path string, depth int)
		show = func(n *qconf.ShareNode, path string, depth int) {
			x.say("%s=%d", "/"+path, n.Shares)
			if depth == 0 {
				return
			}
			for _, c := range n.Children {
				show(c, strings.TrimPrefix(path+"/"+c.Name, "/"), depth-1)
			}
		}
		depth := 1
		if all {
			depth = -1
		}
		if n == tree.Root {
			path = ""
		}
		show(n, absolute(path)[1:], depth)
	}
	if shown == 0 {
		x.result.Exit = 1
	}
}

// wrongShares says that an element of a list is not a path=shares.
func (x *call) wrongShares(item string) {
	x.warn("%s is not a valid argument, see node_shares_list format", item)
	x.fail(1, "no modifications to sharetree")
	x.stderr.lines(x.self.text())
}

// setNodes runs -astnode and -mstnode.
func (x *call) setNodes(g *given, isNew bool) {
	var tree *qconf.ShareTree
	if isNew && x.cluster().ShareTree() == nil {
		tree = &qconf.ShareTree{Root: &qconf.ShareNode{Name: "Root", Shares: 1}}
	} else if tree = x.tree(); tree == nil {
		x.result.Exit = 1
		return
	}
	var done []string
	for _, item := range list(g.value()) {
		path, text, _ := strings.Cut(item, "=")
		shares, err := strconv.ParseInt(text, 10, 32)
		if err != nil || shares < 0 || path == "" {
			x.wrongShares(item)
			return
		}
		n, parent := x.nodeAt(tree.Root, path)
		if n == nil && isNew && strings.ContainsAny(path, "/.") {
			n = x.addNode(tree.Root, path)
			if n == nil {
				continue
			}
		} else if n == nil || parent == nil {
			x.fail(1, "Unable to locate %s in sharetree", path)
			continue
		}
		n.Shares = int(shares)
		done = append(done, "setting ", absolute(path)+"="+text)
	}
	x.nodesDone(tree, done)
}

// addNode makes a node at a path. If the parent does not exist, it prints an error and returns nil.
func (x *call) addNode(root *qconf.ShareNode, path string) *qconf.ShareNode {
	i := strings.LastIndexAny(path, "/.")
	above, name := path[:i], path[i+1:]
	parent, _ := x.nodeAt(root, above)
	if parent == nil || name == "" {
		x.fail(1, "Unable to locate %s in sharetree", above)
		return nil
	}
	n := &qconf.ShareNode{Name: name}
	_, err := x.cluster().Project(name)
	n.Project = err == nil
	parent.Children = append(parent.Children, n)
	return n
}

// nodeAt returns the node at a path, in which names may be separated by points, too.
func (x *call) nodeAt(root *qconf.ShareNode, path string) (n, parent *qconf.ShareNode) {
	if n, parent = node(root, path); n == nil {
		n, parent = node(root, strings.ReplaceAll(path, ".", "/"))
	}
	return n, parent
}

// absolute returns the form of a path in messages about changes.
func absolute(path string) string {
	return "/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '.' }), "/")
}

// nodesDone prints the changes of nodes and applies them.
func (x *call) nodesDone(tree *qconf.ShareTree, done []string) {
	if done == nil {
		x.fail(1, "no modifications to sharetree")
		return
	}
	for _, d := range done {
		x.warn("%s", d)
	}
	if name := x.splitUser(tree); name != "" {
		x.fail(1, "found user %q in share tree as a non-leaf node", name)
		return
	}
	if x.writeTree(tree) {
		x.warn("modified sharetree")
	}
}

// splitUser returns a user with nodes below, "" for none.
func (x *call) splitUser(tree *qconf.ShareTree) (name string) {
	tree.Walk(func(n, parent *qconf.ShareNode) {
		if _, isUser := x.find(userKind, n.Name); isUser && parent != nil && len(n.Children) > 0 && !n.Project {
			name = n.Name
		}
	})
	return name
}

func (x *call) deleteNodes(g *given) {
	tree := x.tree()
	if tree == nil {
		x.result.Exit = 1
		return
	}
	var done []string
	for _, path := range list(g.value()) {
		n, parent := x.nodeAt(tree.Root, path)
		switch {
		case n == nil, parent == nil:
			x.fail(1, "Unable to locate %s in sharetree", path)
		case len(n.Children) > 0:
			x.fail(1, "can't delete nodes with children")
		default:
			parent.Children = slices.DeleteFunc(parent.Children, func(c *qconf.ShareNode) bool { return c == n })
			done = append(done, "removing ", absolute(path))
		}
	}
	x.nodesDone(tree, done)
}
