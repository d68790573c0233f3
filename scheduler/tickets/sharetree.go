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
	goals []goal
	sums  []float64 // of the job shares of running tasks, of leaves
}

// goal is what a node is entitled to.
type goal struct {
	shr          float64
	short        float64 // stt: now, among its siblings
	overall      float64 // ostt: now, of the whole tree
	overallGoals float64 // oltt: in the long run, of the whole tree
}

func (c *calculation) newShares() *shares {
	n := len(c.Tree.nodes)
	return &shares{
		c: c, tree: c.Tree, usage: c.Tree.usages(c.Ledger, &c.Config.UsageWeights),
		tasks: make([]int32, n), goals: make([]goal, n), sums: make([]float64, n),
	}
}

// target computes what each node is entitled to (share_tree(5); sched_conf(5),
// compensation_factor). pending says whether pending tasks count, or those that run
// only.
func (s *shares) target(pending bool) {
	clear(s.tasks)
	clear(s.sums)
	for i := range s.c.Input.Tasks {
		t := &s.c.Input.Tasks[i]
		if t.Leaf == None || !t.Running && !pending {
			continue
		}
		s.tasks[t.Leaf]++
		if t.Running {
			s.sums[t.Leaf] += t.JobShares
		}
	}
	for i := len(s.tasks) - 1; i > 0; i-- {
		s.tasks[s.tree.nodes[i].Parent] += s.tasks[i]
	}
	s.goals[0] = goal{short: 1, overall: 1, overallGoals: 1}
	for i := range s.tree.nodes { // parents come before their children
		if s.tasks[i] > 0 {
			s.divide(int32(i))
		}
	}
}

// least is the usage that a node counts with when it has the whole tree.
const least = 1.0

// divide divides what a node is entitled to among its children. They get it by the
// square of their shares over their usage; so who has used twice its part gets half
// of it. Children that would get more than the compensation factor times their part
// get less.
func (s *shares) divide(node int32) {
	parent, children := s.goals[node], s.tree.nodes[node].children
	var all, sum float64
	for _, i := range children {
		if s.tasks[i] > 0 {
			all += s.tree.nodes[i].Shares
		}
	}
	for _, i := range children {
		if s.tasks[i] == 0 {
			continue
		}
		own := s.tree.nodes[i].Shares
		g := goal{overallGoals: parent.overallGoals * part(own, all)}
		if g.overallGoals > 0 {
			g.shr = own * own / max(s.usage[i], least*g.overallGoals)
		}
		sum += g.shr
		s.goals[i] = g
	}
	s.set(children, parent.overall, sum)
	factor := s.c.Config.CompensationFactor
	if factor == 0 {
		return
	}
	sum = 0
	compensated := false
	for _, i := range children {
		if s.tasks[i] == 0 {
			continue
		}
		if g := &s.goals[i]; g.overall > factor*g.overallGoals {
			own := s.tree.nodes[i].Shares
			g.shr = own * own / (max(s.usage[i], least*g.overallGoals) * (g.overall / (factor * g.overallGoals)))
			compensated = true
		}
		sum += s.goals[i].shr
	}
	// Once only: the result may be above the factor still.
	if compensated {
		s.set(children, parent.overall, sum)
	}
}

func (s *shares) set(children []int32, overall, sum float64) {
	for _, i := range children {
		if s.tasks[i] > 0 {
			s.goals[i].short = part(s.goals[i].shr, sum)
			s.goals[i].overall = overall * s.goals[i].short
		}
	}
}

// activeShare computes the share tree tickets of running tasks (sge_priority(5),
// share tree policy): what their leaf is entitled to, divided by their job shares,
// or evenly where none of them has any. Pending tasks count for the latter where
// target counted them.
func (c *calculation) activeShare(s *shares) {
	for i := range c.Input.Tasks {
		t := &c.Input.Tasks[i]
		if !t.Running || t.Leaf == None {
			continue
		}
		tickets := s.goals[t.Leaf].overall * c.Config.TicketsShare
		if sum := s.sums[t.Leaf]; sum > 0 {
			tickets = math.Trunc(t.JobShares * tickets / sum)
		} else {
			tickets /= float64(s.tasks[t.Leaf])
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
	tasks []ranked // of a node and those below it: side by side
	head  []int32  // of the list of the tasks of a leaf
	next  []int32
}

// pendingShare computes the share tree tickets of pending tasks: those below a node
// are ranked, and the first gets all that the node is entitled to, the second half
// of it, the third a third; a parallel job counts as its slots for those behind it.
// That is done from the leaves to the children of the root, and what was found there
// counts. Tasks that run are ranked first.
func (c *calculation) pendingShare(s *shares, dependent bool) {
	r := &ranking{shares: s, tasks: make([]ranked, 0, len(c.Input.Tasks)), head: slices.Repeat([]int32{None}, len(s.tasks)), next: make([]int32, len(c.Input.Tasks))}
	for i := range c.Input.Tasks {
		if leaf := c.Input.Tasks[i].Leaf; leaf != None {
			r.next[i], r.head[leaf] = r.head[leaf], int32(i)
		}
	}
	root := int32(0)
	for s.tasks[root] > 0 && r.head[root] == None {
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
	if r.head[root] != None {
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

// rank appends the tasks of a node and of all nodes below it, in their order.
func (r *ranking) rank(node int32, dependent bool) {
	from := len(r.tasks)
	for i := r.head[node]; i != None; i = r.next[i] {
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
	slices.SortFunc(list, func(a, b ranked) int {
		if a.running != b.running {
			if a.running {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.order, a.order), byID(&r.c.Input.Tasks[a.task], &r.c.Input.Tasks[b.task]))
	})
	short := r.goals[node].short
	rank := 1.0
	for i := range list {
		e := &list[i]
		e.part = short / rank
		e.order = e.tickets + e.part*r.c.Config.TicketsShare
		rank += float64(e.slots)
	}
}
