package tickets

import (
	"errors"
	"fmt"
	"slices"
)

// Kind is the kind of a node of the share tree (share_tree(5)).
type Kind int

// The kinds of nodes.
const (
	Group       Kind = iota // of the nodes below it
	UserNode                // a user
	ProjectNode             // a project; below it are its users
	DefaultNode             // for each user without a node, share_tree(5)
)

// Node is a node of the share tree.
type Node struct {
	Name   string
	Kind   Kind
	Index  int32   // of the user or the project
	Parent int32   // of the node in the list, before this one; None for the root
	Shares float64 // among its siblings
}

// treeNode is a node with values derived from its position.
type treeNode struct {
	Node
	children []int32
	project  int32 // of the project that the node is below of, or None
}

// Tree is a share tree (share_tree(5)). It finds the leaf of a task. Users that the tree does not
// name get a leaf next to the default node, with the same number of shares, on their first use;
// make a new Tree when users are removed.
type Tree struct {
	nodes    []treeNode
	named    int         // number of nodes from the configuration
	users    int         // how many there are
	projects []int32     // the node of each project, or None
	outside  searchSpace // of nodes that are not below a project
	inside   []searchSpace
}

// searchSpace is the users below a node.
type searchSpace struct {
	node     int32   // None for nothing
	fallback int32   // the default node, or None
	leaf     []int32 // by user, None for users without a leaf; nil until it is needed
}

// NewTree makes a tree. Each node must follow its parent, and the root comes first. users and
// projects are the numbers of users and projects.
//
// If a user, a project or a default node occurs twice, the first one from top to bottom counts.
// Projects below other projects are never used.
func NewTree(nodes []Node, users, projects int) (*Tree, error) {
	if len(nodes) == 0 {
		return nil, errors.New("cannot make a share tree of no nodes")
	}
	t := &Tree{users: users, named: len(nodes), projects: slices.Repeat([]int32{None}, projects)}
	for i, n := range nodes {
		limit := int32(0)
		switch n.Kind {
		case UserNode:
			limit = int32(users)
		case ProjectNode:
			limit = int32(projects)
		default:
			n.Index = None
		}
		switch {
		case i == 0 && n.Parent != None:
			return nil, fmt.Errorf("cannot make a share tree: its root %q has the parent %d", n.Name, n.Parent)
		case i > 0 && (n.Parent < 0 || n.Parent >= int32(i)):
			return nil, fmt.Errorf("cannot make a share tree: the node %q has the parent %d, which is not a node before it", n.Name, n.Parent)
		case n.Index != None && (n.Index < 0 || n.Index >= limit):
			return nil, fmt.Errorf("cannot make a share tree: the node %q has the index %d of %d", n.Name, n.Index, limit)
		case n.Shares < 0:
			return nil, fmt.Errorf("cannot make a share tree: the node %q has %g shares", n.Name, n.Shares)
		}
		t.add(n)
	}
	t.outside = searchSpace{node: 0, fallback: None}
	t.inside = make([]searchSpace, projects)
	for p := range t.inside {
		t.inside[p] = searchSpace{node: None, fallback: None}
	}
	t.search(0, &t.outside)
	return t, nil
}

func (t *Tree) add(n Node) int32 {
	i := int32(len(t.nodes))
	project := None
	if n.Parent != None {
		parent := &t.nodes[n.Parent]
		parent.children = append(parent.children, i)
		if project = parent.project; parent.Kind == ProjectNode && project == None {
			project = parent.Index
		}
	}
	t.nodes = append(t.nodes, treeNode{Node: n, project: project})
	return i
}

// search enters the nodes below a node into a search space, in the order in which
// the original finds them: depth first.
func (t *Tree) search(i int32, s *searchSpace) {
	n := &t.nodes[i]
	switch n.Kind {
	case ProjectNode:
		if i == s.node {
			break
		}
		if s != &t.outside || t.projects[n.Index] != None {
			return
		}
		t.projects[n.Index] = i
		s = &t.inside[n.Index]
		s.node = i
	case UserNode:
		if leaf := t.leaves(s); leaf[n.Index] == None {
			leaf[n.Index] = i
		}
	case DefaultNode:
		if s.fallback == None {
			s.fallback = i
		}
	}
	for _, child := range n.children {
		t.search(child, s)
	}
}

func (t *Tree) leaves(s *searchSpace) []int32 {
	if s.leaf == nil {
		s.leaf = slices.Repeat([]int32{None}, t.users)
	}
	return s.leaf
}

// Leaf finds the node of a user's tasks in a project, or for None without a project
// (share_tree(5)). A project without nodes below it is itself the leaf. Leaf returns the zero Ref,
// with which a task gets no tickets of the share tree, if the tree does not contain the project, or
// contains it with neither the user nor a default node below it: the nodes outside of projects do
// not apply. It also does so for users and projects beyond the numbers given to NewTree.
func (t *Tree) Leaf(user, project int32) Ref { return RefTo(t.leaf(user, project)) }

func (t *Tree) leaf(user, project int32) int32 {
	if user < None || int(user) >= t.users || project < None || int(project) >= len(t.inside) {
		return None
	}
	s := &t.outside
	if project != None {
		if s = &t.inside[project]; s.node == None {
			return None
		}
		if len(t.nodes[s.node].children) == 0 {
			return s.node
		}
	}
	if user == None {
		return None
	}
	if s.leaf != nil && s.leaf[user] != None {
		return s.leaf[user]
	}
	if s.fallback == None {
		return None
	}
	fallback := &t.nodes[s.fallback]
	i := t.add(Node{Name: fallback.Name, Kind: UserNode, Index: user, Parent: fallback.Parent, Shares: fallback.Shares})
	t.leaves(s)[user] = i
	return i
}

// usages returns the combined usages of all nodes: a user's usage in the project above the node, a
// project's whole usage, and for a group the sum of its children. The leaves of users whom the tree
// does not name count only if the user is present (nil means all): users without tasks are ignored.
func (t *Tree) usages(l *Ledger, w *UsageWeights, present []bool) []float64 {
	usage := make([]float64, len(t.nodes))
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		if present != nil && i >= t.named && !present[i] {
			continue
		}
		if u := n.usage(l); u != nil {
			usage[i] = w.combine(&u.Decayed)
		}
		// A parent comes later; the usage of a project replaces the sum.
		if n.Parent != None {
			usage[n.Parent] += usage[i]
		}
	}
	return usage
}

// usage returns the usage of the user or the project of a node.
func (n *treeNode) usage(l *Ledger) *Usage {
	switch {
	case l == nil:
	case n.Kind == ProjectNode && n.project == None && int(n.Index) < len(l.Projects):
		return &l.Projects[n.Index].Usage
	case n.Kind == UserNode && len(n.children) == 0 && int(n.Index) < len(l.Users):
		return l.Users[n.Index].In(n.project)
	}
	return nil
}
