package tickets

import (
	"cmp"
	"slices"
)

// Row is a line of sge_share_mon(1).
type Row struct {
	Path          string // node_name
	User, Project int32  // None where the line names none
	Shares        float64
	Tasks         int     // job_count: tasks that run or may start
	Level         float64 // level%, of the shares of the siblings
	Total         float64 // total%, of the whole tree
	LongTarget    float64 // long_target_share
	ShortTarget   float64 // short_target_share
	ActualShare   float64 // actual_share, of the usage of the whole tree
	Usage         float64 // combined
	Own           Usage   // cpu, mem, io, and ltcpu, ltmem, ltio; zero for groups
	UsageTime     int64   // usage_time, of users; 0 for others
}

// Monitoring is the input of Tree.Monitor.
type Monitoring struct {
	Ledger       *Ledger // nil for no usage
	Weights      UsageWeights
	Compensation float64 // Config.CompensationFactor
	// Names are the names of the users; an index with an empty name is unused.
	Names []string
	// Allowed says which users may use a project (project(5), acl and xacl); nil is for all.
	Allowed func(user, project int32) bool
	// Tasks are the numbers of tasks that run or may start, by their leaf.
	Tasks map[Ref]int
}

// Monitor returns the rows of sge_share_mon(1), from top to bottom of the tree. The users of a
// default node follow it in the order of their names, each with its shares, whether or not they
// have jobs. Below the default node of a project they are all users with access to the project.
//
// Usage of a project that belongs to no user named in the tree is added to the project's default
// node. The tasks and the target shares are always 0, as in Grid Engine.
func (t *Tree) Monitor(m *Monitoring) []Row {
	shown, tasks := t.withAllUsers(m)
	v := &monitor{Monitoring: m, tree: shown, usage: shown.usages(m.Ledger, &m.Weights, nil), tasks: tasks, goals: make([]Portion, len(shown.nodes))}
	shown.addUnexplained(v.usage)
	for i := len(tasks) - 1; i > 0; i-- { // parents precede their children
		tasks[shown.nodes[i].Parent] += tasks[i]
	}
	if tasks[0] > 0 {
		v.goals[0] = Whole
		for i := range shown.nodes {
			v.divide(&shown.nodes[i], v.goals[i])
		}
	}
	v.add(0, "", 1, 1)
	return v.rows
}

// monitor is the rows in the making.
type monitor struct {
	*Monitoring
	tree  *Tree
	usage []float64 // by node, like all others
	tasks []int     // at the node and below it
	goals []Portion
	rows  []Row
}

// withAllUsers returns the tree of the configuration with all users below the default
// nodes that they fall to, and how many tasks each node has itself.
func (t *Tree) withAllUsers(m *Monitoring) (*Tree, []int) {
	shown := &Tree{}
	var tasks []int
	add := func(n Node, leaf int32) {
		shown.add(n)
		tasks = append(tasks, m.Tasks[RefTo(leaf)])
	}
	for i := range t.named {
		add(t.nodes[i].Node, int32(i))
	}
	var users []int32
	for user := range int32(min(len(m.Names), t.users)) {
		if m.Names[user] != "" {
			users = append(users, user)
		}
	}
	slices.SortFunc(users, func(a, b int32) int { return cmp.Compare(m.Names[a], m.Names[b]) })
	under := func(s *searchSpace, project int32) {
		if s.fallback == None {
			return
		}
		for _, user := range users {
			leaf := None
			if s.leaf != nil {
				leaf = s.leaf[user]
			}
			own := leaf != None && leaf < int32(t.named)
			if own || project != None && m.Allowed != nil && !m.Allowed(user, project) {
				continue
			}
			add(Node{Name: m.Names[user], Kind: UserNode, Index: user, Parent: s.fallback, Shares: t.nodes[s.fallback].Shares}, leaf)
		}
	}
	for p := range t.inside {
		under(&t.inside[p], int32(p))
	}
	under(&t.outside, None)
	return shown, tasks
}

// addUnexplained adds the usage of each project that belongs to no user below it to the project's
// default node, and to the groups in between.
func (t *Tree) addUnexplained(usage []float64) {
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.Kind != ProjectNode || n.project != None || len(n.children) == 0 {
			continue
		}
		unexplained := usage[i]
		for _, child := range n.children {
			unexplained -= usage[child]
		}
		if unexplained <= 1 {
			continue
		}
		for d := t.firstDefault(int32(i)); d > int32(i); d = t.nodes[d].Parent {
			usage[d] += unexplained
		}
	}
}

func (t *Tree) firstDefault(i int32) int32 {
	if t.nodes[i].Kind == DefaultNode {
		return i
	}
	for _, child := range t.nodes[i].children {
		if d := t.firstDefault(child); d != None {
			return d
		}
	}
	return None
}

// divide divides the entitlement of a node among its children with tasks.
func (v *monitor) divide(n *treeNode, own Portion) {
	var active []int32
	var portions []Portion
	for _, i := range n.children {
		if v.tasks[i] > 0 {
			active = append(active, i)
			portions = append(portions, Portion{Shares: v.tree.nodes[i].Shares, Usage: v.usage[i]})
		}
	}
	Divide(own, portions, v.Compensation)
	for k, i := range active {
		v.goals[i] = portions[k]
	}
}

// add adds the rows of a node and those below it. level is its part of the shares among its
// siblings, total that of all.
func (v *monitor) add(i int32, path string, level, total float64) {
	n := &v.tree.nodes[i]
	r := Row{
		Path: path, User: None, Project: n.project, Shares: n.Shares, Tasks: v.tasks[i], Level: level, Total: total,
		LongTarget: v.goals[i].Long, ShortTarget: v.goals[i].Short, ActualShare: part(v.usage[i], v.usage[0]), Usage: v.usage[i],
	}
	if i == 0 {
		r.Path = "/"
	}
	switch n.Kind {
	case ProjectNode:
		r.Project = n.Index
	case UserNode:
		r.User = n.Index
		if v.Ledger != nil && int(n.Index) < len(v.Ledger.Users) {
			r.UsageTime = v.Ledger.Users[n.Index].Stamp
		}
	}
	if u := n.usage(v.Ledger); u != nil {
		r.Own = *u
	}
	v.rows = append(v.rows, r)
	var sum float64
	for _, child := range n.children {
		sum += v.tree.nodes[child].Shares
	}
	for _, child := range n.children {
		of := part(v.tree.nodes[child].Shares, sum)
		v.add(child, path+"/"+v.tree.nodes[child].Name, of, total*of)
	}
}
