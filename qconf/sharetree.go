package qconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ShareTree is the share tree of share_tree(5): the shares of users and projects in the cluster.
type ShareTree struct {
	Root *ShareNode
	file string
}

// ShareNode is a node of the share tree. A leaf is a user or a project; a node with children is a
// group or a project.
type ShareNode struct {
	Name     string
	Project  bool // type=1
	Shares   int  // among the children of its parent
	Children []*ShareNode

	line int // of name
	// refused is set if the kind of the node is unknown because of an error.
	refused bool
}

// Default reports whether the node stands for all users without a node next to it.
func (n *ShareNode) Default() bool { return !n.Project && n.Name == defaultNode }

// shareLine is a line of a node, shareSpec the lines of one.
type (
	shareLine struct {
		key, value string
		number     int
	}
	shareSpec struct {
		node         *ShareNode
		id           int
		children     []int
		line         int // of id
		childrenLine int
	}
)

// ParseShareTree reads the format of qconf -sstree. file is only used in errors, which are all
// *Error, joined.
//
// The first node is the root. It refuses cases in which Grid Engine guesses: a number of two nodes,
// and a node with two parents or none, which includes every cycle.
func ParseShareTree(file string, data []byte) (*ShareTree, error) {
	return whole(readShareTree(file, data))
}

// readShareTree returns the valid part of a share tree together with the errors in the remaining
// part.
func readShareTree(file string, data []byte) (*ShareTree, error) {
	r := shareReader{file: file}
	r.read(string(data))
	tree := &ShareTree{file: file}
	if len(r.specs) > 0 {
		tree.Root = r.link()
	}
	return tree, errJoin(r.errs)
}

// shareReader reads a share tree and collects its errors.
type shareReader struct {
	file  string
	specs []*shareSpec
	errs  []error
	// loose is set if an error makes it unknown which node is below which.
	loose bool
}

func (r *shareReader) refuse(line int, attribute, value, problem string) {
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Attribute: attribute, Value: value, Problem: problem})
}

// shareKeys are the lines of a node, in the order in which qconf prints them.
var shareKeys = []string{"id", "name", "type", "shares", "childnodes"}

// read splits the file into nodes: each begins with its id.
func (r *shareReader) read(data string) {
	lines, errs := readLines(r.file, data)
	r.errs = errs
	var node []shareLine
	var many bool
	for _, l := range lines {
		if r.errs, many = enough(r.errs, l); many {
			break
		}
		key, value, ok := strings.Cut(strings.TrimRight(l.name+" "+l.value, blanks), "=")
		key, value = strings.Trim(key, blanks), strings.Trim(value, blanks)
		if !ok || !slices.Contains(shareKeys, key) {
			r.refuse(l.number, "", l.name, fmt.Sprintf("%q is no line of a share tree, expected one of %s=value", l.name, strings.Join(shareKeys, "=, ")))
			continue
		}
		if key == "id" {
			r.node(node)
			node = nil
		} else if node == nil {
			r.refuse(l.number, key, value, "belongs to no node, expected id=number first")
			r.loose = true
			continue
		}
		node = append(node, shareLine{key, value, l.number})
	}
	r.node(node)
	if len(r.specs) == 0 && len(r.errs) == 0 {
		r.refuse(0, "", "", "has no nodes, expected id=0 and the other lines of the root")
	}
}

// node reads the lines of a node.
func (r *shareReader) node(lines []shareLine) {
	if lines == nil {
		return
	}
	spec := &shareSpec{node: &ShareNode{}, line: lines[0].number}
	seen := map[string]bool{}
	for _, l := range lines {
		if seen[l.key] {
			r.refuse(l.number, l.key, l.value, "comes twice in a node")
			continue
		}
		seen[l.key] = true
		var err error
		switch l.key {
		case "id":
			spec.id, err = parseNumber(l.value, 0, math.MaxUint32)
		case "name":
			spec.node.Name, spec.node.line = l.value, l.number
			err = CheckName(l.value)
		case "type":
			var n int
			if n, err = parseNumber(l.value, 0, 1); err != nil {
				err = fmt.Errorf("%q is unknown, expected 0 for a user or a group, or 1 for a project", l.value)
			}
			spec.node.Project = n == 1
		case "shares":
			spec.node.Shares, err = parseNumber(l.value, 0, math.MaxUint32)
		case "childnodes":
			spec.children, err = shareChildren(l.value)
			spec.childrenLine = l.number
		}
		for _, e := range problems(err) {
			r.refuse(l.number, l.key, l.value, e.Error())
			r.unsure(spec, l.key)
		}
	}
	for _, key := range shareKeys {
		if !seen[key] {
			r.refuse(spec.line, key, "", "is missing, a node of the share tree needs it")
			r.unsure(spec, key)
		}
	}
	r.specs = append(r.specs, spec)
}

// unsure records which property of a node is unknown because one of its lines is invalid.
func (r *shareReader) unsure(spec *shareSpec, key string) {
	spec.node.refused = spec.node.refused || key != "shares"
	r.loose = r.loose || key == "id" || key == "childnodes"
	if key == "id" {
		spec.id = unknownNode
	}
}

// unknownNode is the id of a node without an id line.
const unknownNode = -1

func shareChildren(s string) ([]int, error) {
	if isWord(s, none) {
		return nil, nil
	}
	var ids []int
	var errs []error
	for _, item := range words(s) {
		id, err := parseNumber(item, 0, math.MaxUint32)
		if err != nil {
			errs = addError(errs, err)
			continue
		}
		ids = append(ids, id)
	}
	if ids == nil && errs == nil {
		errs = addError(errs, fmt.Errorf("%q is an empty list, expected NONE or numbers of nodes", s))
	}
	return ids, errJoin(errs)
}

// link makes a tree of the nodes. Each node except the first must have exactly one parent and
// descend from the first, so that there is no cycle.
func (r *shareReader) link() *ShareNode {
	byID := map[int]*shareSpec{}
	for _, s := range r.specs {
		if s.id == unknownNode {
			continue
		}
		if other := byID[s.id]; other != nil {
			r.refuse(s.line, "id", strconv.Itoa(s.id), fmt.Sprintf("the node in line %d has the same number", other.line))
			r.loose = true
			continue
		}
		byID[s.id] = s
	}
	root := r.specs[0]
	parents := map[*shareSpec]*shareSpec{}
	for _, s := range r.specs {
		names := map[string]bool{}
		for _, id := range s.children {
			child := byID[id]
			switch {
			case child == nil && r.loose:
				continue
			case child == nil:
				r.refuse(s.childrenLine, "childnodes", strconv.Itoa(id), fmt.Sprintf("node %d does not exist", id))
				continue
			case child == root:
				r.refuse(s.childrenLine, "childnodes", strconv.Itoa(id), fmt.Sprintf("node %d is the root, which closes a circle", id))
				continue
			case parents[child] != nil:
				r.refuse(s.childrenLine, "childnodes", strconv.Itoa(id), fmt.Sprintf("node %d is a child of node %d already", id, parents[child].id))
				continue
			case names[child.node.Name]:
				r.refuse(child.node.line, "name", child.node.Name, fmt.Sprintf("%q comes twice below the node %q", child.node.Name, s.node.Name))
			}
			names[child.node.Name] = true
			parents[child] = s
			s.node.Children = append(s.node.Children, child.node)
		}
	}
	tops := map[*shareSpec]*shareSpec{} // the highest node above each, or a node of its cycle
	for _, s := range r.specs[1:] {
		top, way := s, []*shareSpec(nil)
		for steps := 0; parents[top] != nil && steps <= len(r.specs); steps++ {
			if known := tops[top]; known != nil {
				top = known
				break
			}
			way = append(way, top)
			top = parents[top]
		}
		for _, below := range way {
			tops[below] = top
		}
		switch {
		case byID[s.id] != s || top == root || r.loose:
		case parents[top] != nil:
			r.refuse(s.line, "id", strconv.Itoa(s.id), fmt.Sprintf("node %d is below itself", s.id))
		default:
			r.refuse(s.line, "id", strconv.Itoa(s.id), fmt.Sprintf("node %d is not below the first node, which is the root", s.id))
		}
	}
	return root.node
}

// Walk calls each for every node, parents before their children, with its
// parent; that of the root is nil.
func (t *ShareTree) Walk(each func(n, parent *ShareNode)) {
	if t == nil || t.Root == nil {
		return
	}
	var walk func(n, parent *ShareNode)
	walk = func(n, parent *ShareNode) {
		each(n, parent)
		for _, child := range n.Children {
			walk(child, n)
		}
	}
	walk(t.Root, nil)
}

// resolved returns the tree with its names resolved in a cluster: a node with the name of a project
// is a project, whatever its type; the root, the default node and users are not (tested; no user
// has the name of a project).
func (t *ShareTree) resolved(c *Cluster) *ShareTree {
	if t == nil || t.Root == nil {
		return t
	}
	var clone func(n *ShareNode) *ShareNode
	clone = func(n *ShareNode) *ShareNode {
		r := *n
		switch {
		case c.projects[n.Name] != nil:
			r.Project = n != t.Root
		case n == t.Root, n.Name == defaultNode, c.users[n.Name] != nil:
			r.Project = false
		}
		r.Children = nil
		for _, child := range n.Children {
			r.Children = append(r.Children, clone(child))
		}
		return &r
	}
	return &ShareTree{Root: clone(t.Root), file: t.file}
}

// Format prints the tree as qconf -sstree does: the nodes numbered as Walk
// meets them. Reading the result gives the same.
func (t *ShareTree) Format() string {
	ids := map[*ShareNode]int{}
	t.Walk(func(n, _ *ShareNode) { ids[n] = len(ids) })
	var b strings.Builder
	t.Walk(func(n, _ *ShareNode) {
		kind, children := 0, none
		if n.Project {
			kind = 1
		}
		for i, child := range n.Children {
			if i == 0 {
				children = strconv.Itoa(ids[child])
			} else {
				children += "," + strconv.Itoa(ids[child])
			}
		}
		fmt.Fprintf(&b, "id=%d\nname=%s\ntype=%d\nshares=%d\nchildnodes=%s\n", ids[n], n.Name, kind, n.Shares, children)
	})
	return b.String()
}
