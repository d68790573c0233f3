package tickets

import (
	"cmp"
	"math"
	"slices"
)

// shares is the share tree of a calculation: only nodes with tasks below them take
// part.
type shares struct {
	c     *calculation
	tree  *Tree
	usage []float64
	tasks []int32 // how many there are below each node
	own   []int32 // and how many of them are its own
	goals []Portion
	sums  []float64 // of the job shares of running tasks, of leaves

	portions []Portion // of divide
}

func (c *calculation) newShares() *shares {
	n := len(c.Tree.nodes)
	present := make([]bool, n)
	for i := range c.Input.Tasks {
		if leaf := c.Input.Tasks[i].Leaf.Index(); leaf != None {
			present[leaf] = true
		}
	}
	return &shares{
		c: c, tree: c.Tree, usage: c.Tree.usages(c.Ledger, &c.Config.UsageWeights, present),
		tasks: make([]int32, n), own: make([]int32, n), goals: make([]Portion, n), sums: make([]float64, n),
	}
}

// target computes the entitlement of each node (share_tree(5); sched_conf(5), compensation_factor).
// pending says whether pending tasks count in addition to running ones.
func (s *shares) target(pending bool) {
	clear(s.tasks)
	clear(s.sums)
	for i := range s.c.active {
		t := &s.c.active[i]
		if leaf := t.Leaf.Index(); leaf != None {
			s.tasks[leaf]++
			s.sums[leaf] += t.JobShares
		}
	}
	if pending {
		for i := range s.c.pending {
			if leaf := s.c.pending[i].Leaf.Index(); leaf != None {
				s.tasks[leaf]++
			}
		}
	}
	copy(s.own, s.tasks)
	for i := len(s.tasks) - 1; i > 0; i-- {
		s.tasks[s.tree.nodes[i].Parent] += s.tasks[i]
	}
	s.goals[0] = Whole
	for i := range s.tree.nodes { // parents come before their children
		if s.tasks[i] > 0 {
			s.divide(int32(i))
		}
	}
}

// divide divides what a node is entitled to among its children with tasks.
func (s *shares) divide(node int32) {
	children := s.tree.nodes[node].children
	s.portions = s.portions[:0]
	for _, i := range children {
		if s.tasks[i] > 0 {
			s.portions = append(s.portions, Portion{Shares: s.tree.nodes[i].Shares, Usage: s.usage[i]})
		}
	}
	Divide(s.goals[node], s.portions, s.c.Config.CompensationFactor)
	next := 0
	for _, i := range children {
		if s.tasks[i] > 0 {
			s.goals[i] = s.portions[next]
			next++
		}
	}
}

// activeShare computes the share tree tickets of running tasks (sge_priority(5), share tree
// policy): the entitlement of their leaf, divided in proportion to their job shares, or evenly if
// no task has job shares. In the second case pending tasks count if target counted them.
func (c *calculation) activeShare(s *shares) {
	for i := range c.active {
		t := &c.active[i]
		leaf := t.Leaf.Index()
		if leaf == None {
			continue
		}
		tickets := s.goals[leaf].Short * c.Config.TicketsShare
		if sum := s.sums[leaf]; sum > 0 {
			tickets = math.Trunc(t.JobShares * tickets / sum)
		} else {
			tickets /= float64(s.tasks[leaf])
		}
		c.Result.Tasks[i].Share = tickets
	}
}

// ranked is a task on its way up the share tree.
type ranked struct {
	task    int32
	slots   int32
	running bool
	tickets float64 // of policies that this one depends on
	order   float64
	part    float64 // of all tickets
}

// ranking is the order of the tasks below each node.
type ranking struct {
	*shares
	tasks  []ranked // tasks of a node and of the nodes below it, in one slice
	leaves []int32  // the tasks of all leaves, by leaf
	ends   []int32  // of each node: where its own tasks end there
}

// byLeaf lists the tasks of each leaf, in the order of the input.
func (r *ranking) byLeaf() {
	tasks := r.c.Input.Tasks
	r.ends = make([]int32, len(r.own))
	n := int32(0)
	for i, own := range r.own {
		r.ends[i], n = n, n+own
	}
	r.leaves = make([]int32, n)
	for i := range tasks {
		if leaf := tasks[i].Leaf.Index(); leaf != None {
			r.leaves[r.ends[leaf]] = int32(i)
			r.ends[leaf]++
		}
	}
}

// pendingShare computes the share tree tickets of pending tasks. The tasks below a node are ranked:
// the first gets the whole entitlement of the node, the second half of it, the third a third, and
// so on; a parallel job counts with its slots for the tasks after it. This is done from the leaves
// up to the children of the root, whose results count. Running tasks are ranked first.
func (c *calculation) pendingShare(s *shares, dependent bool) {
	r := &ranking{shares: s, tasks: make([]ranked, 0, len(c.Input.Tasks))}
	r.byLeaf()
	root := int32(0)
	for s.tasks[root] > 0 && s.own[root] == 0 {
		only := None
		for _, child := range s.tree.nodes[root].children {
			if s.tasks[child] == 0 {
				continue
			}
			if only != None {
				only = None
				break
			}
			only = child
		}
		if only == None {
			break
		}
		root = only
	}
	if s.own[root] > 0 {
		r.rank(root, dependent)
	} else {
		for _, child := range s.tree.nodes[root].children {
			if s.tasks[child] > 0 {
				r.rank(child, dependent)
			}
		}
	}
	for i := range r.tasks {
		e := &r.tasks[i]
		if e.running {
			continue
		}
		tickets := e.part * c.Config.TicketsShare
		c.Result.Tasks[e.task].Share = tickets
		if dependent {
			c.hier[e.task] += tickets
		}
	}
}

func (r *ranking) compare(a, b ranked) int {
	switch {
	case a.running && !b.running:
		return -1
	case b.running && !a.running:
		return 1
	case a.order != b.order:
		return cmp.Compare(b.order, a.order)
	}
	return byID(&r.c.Input.Tasks[a.task], &r.c.Input.Tasks[b.task])
}

// rank appends the tasks of a node and of all nodes below it, in their order.
func (r *ranking) rank(node int32, dependent bool) {
	from := len(r.tasks)
	for _, i := range r.leaves[r.ends[node]-r.own[node] : r.ends[node]] {
		t := &r.c.Input.Tasks[i]
		e := ranked{task: i, slots: max(1, t.Slots), running: t.Running, order: t.JobShares}
		if dependent {
			e.tickets = r.c.hier[i]
			e.order = e.tickets + 0.01*t.JobShares
		}
		r.tasks = append(r.tasks, e)
	}
	for _, child := range r.tree.nodes[node].children {
		if r.shares.tasks[child] > 0 {
			r.rank(child, dependent)
		}
	}
	list := r.tasks[from:]
	// The tasks of a leaf are usually sorted already: they come in the order of their job numbers.
	if !slices.IsSortedFunc(list, r.compare) {
		slices.SortFunc(list, r.compare)
	}
	short := r.goals[node].among
	rank := 1.0
	for i := range list {
		e := &list[i]
		e.part = short / rank
		e.order = e.tickets + e.part*r.c.Config.TicketsShare
		rank += float64(e.slots)
	}
}
