package view

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Shares are the nodes of the share tree as sge_share_mon(1) shows them, depth first:
// nil without a tree. Users for whom a default node stands come below it.
func (v *View) Shares() []qstat.ShareRow {
	tree := v.cell.Cluster().ShareTree()
	if tree == nil || tree.Root == nil {
		return nil
	}
	s := shares{view: v, weights: v.cell.Cluster().Scheduler().UsageWeights}
	s.count(tree.Root)
	root := s.node(tree.Root, "", "")
	root.row.Node = "/"
	s.entitle(root)
	s.print(root, 1, 1)
	total := root.usage
	for i := range s.rows {
		if total > 0 {
			s.rows[i].Actual = s.rows[i].Usage / total
		}
	}
	return s.rows
}

// shares are the rows in the making.
type shares struct {
	view    *View
	weights []qconf.Weight
	rows    []qstat.ShareRow
	tasks   map[shareOf]int // that run or may start
}

// shareNode is a node with the usage of what is below it.
type shareNode struct {
	row      qstat.ShareRow
	usage    float64
	children []*shareNode
}

// node makes a node and those below it. project is the one that it belongs to.
func (s *shares) node(n *qconf.ShareNode, path, project string) *shareNode {
	x := &shareNode{row: qstat.ShareRow{Node: path + "/" + n.Name, Shares: n.Shares, Now: s.view.now}}
	root := n == s.view.cell.Cluster().ShareTree().Root
	if !root {
		path = x.row.Node
	}
	if n.Project {
		project = n.Name
	}
	x.row.Project = project
	for _, child := range n.Children {
		x.children = append(x.children, s.node(child, path, project))
	}
	switch {
	case n.Project:
		s.account(x, s.projectUsage(n.Name))
		s.unexplained(x)
	case n.Default():
		s.standIns(x, project)
	case len(n.Children) == 0 && !root:
		x.row.User = n.Name
		s.user(x, n.Name, project)
	}
	if n.Project && len(x.children) == 0 {
		x.row.Jobs = s.tasks[shareOf{project: n.Name}]
	}
	for _, child := range x.children {
		x.row.Jobs += child.row.Jobs
		if !n.Project {
			x.usage += child.usage
		}
	}
	return x
}

// standIns adds the users for whom a default node stands: those without a node of their
// own outside of projects, or in the project.
func (s *shares) standIns(x *shareNode, project string) {
	named := map[string]bool{}
	s.named(s.view.cell.Cluster().ShareTree().Root, "", project, named)
	users := slices.Clone(s.view.cell.Users())
	slices.Sort(users)
	for _, name := range users {
		if name == "" || named[name] {
			continue
		}
		child := &shareNode{row: qstat.ShareRow{
			Node: x.row.Node + "/" + name, User: name, Project: project, Shares: x.row.Shares, Now: s.view.now,
		}}
		s.user(child, name, project)
		x.children = append(x.children, child)
	}
}

// named finds the users that have a node in a project, or outside of projects for "".
func (s *shares) named(n *qconf.ShareNode, in, project string, users map[string]bool) {
	if n.Project {
		in = n.Name
	}
	if len(n.Children) == 0 && !n.Project && in == project {
		users[n.Name] = true
	}
	for _, child := range n.Children {
		s.named(child, in, project, users)
	}
}

// unexplained adds to the default node of a project what the project has used and none
// of its users has.
func (s *shares) unexplained(x *shareNode) {
	rest := x.usage
	for _, child := range x.children {
		rest -= child.usage
	}
	for _, child := range x.children {
		if rest > 1 && child.row.Node == x.row.Node+"/default" {
			child.usage += rest
		}
	}
}

// user fills in what a user has used, in a project or without one.
func (s *shares) user(x *shareNode, name, project string) {
	x.row.Jobs = s.tasks[shareOf{name, project}]
	u := slices.Index(s.view.cell.Users(), name)
	ledger := s.view.cell.Entitled().Ledger
	if u < 0 || ledger == nil || u >= len(ledger.Users) {
		return
	}
	x.row.UsageTime = ledger.Users[u].Stamp
	in := tickets.None
	if project != "" {
		p := slices.Index(s.view.cell.Projects(), project)
		if p < 0 {
			return
		}
		in = int32(p)
	}
	s.account(x, ledger.Users[u].In(in))
}

func (s *shares) projectUsage(name string) *tickets.Usage {
	p := slices.Index(s.view.cell.Projects(), name)
	ledger := s.view.cell.Entitled().Ledger
	if p < 0 || ledger == nil || p >= len(ledger.Projects) {
		return nil
	}
	return &ledger.Projects[p].Usage
}

// account fills in usage, and the number that the weights make of it.
func (s *shares) account(x *shareNode, u *tickets.Usage) {
	if u == nil {
		return
	}
	x.row.Decayed, x.row.LongTerm = usage(&u.Decayed), usage(&u.LongTerm)
	amounts := map[string]float64{
		"cpu": u.Decayed[tickets.CPU], "mem": u.Decayed[tickets.Mem], "io": u.Decayed[tickets.IO], "finished_jobs": u.Decayed[tickets.FinishedJobs],
	}
	sum := 0.0
	for _, w := range s.weights {
		sum += w.Factor
	}
	if sum <= 0 {
		return
	}
	for _, w := range s.weights {
		x.usage += amounts[w.Name] * w.Factor / sum
	}
}

func usage(a *tickets.Amounts) qstat.Usage {
	return qstat.Usage{CPU: a[tickets.CPU], Memory: a[tickets.Mem], IO: a[tickets.IO]}
}

// print appends a node and those below it. level is its part of the shares among its
// siblings, total that of all.
func (s *shares) print(x *shareNode, level, total float64) {
	x.row.Level, x.row.Total, x.row.Usage = level, total, x.usage
	s.rows = append(s.rows, x.row)
	sum := 0
	for _, child := range x.children {
		sum += child.row.Shares
	}
	for _, child := range x.children {
		part := 0.0
		if sum > 0 {
			part = float64(child.row.Shares) / float64(sum)
		}
		s.print(child, part, total*part)
	}
}

// shareOf is whose jobs count at a node: those of a user, in a project with a node or
// outside of those, or of all users of a project.
type shareOf struct{ user, project string }

// count counts the tasks that the share tree is for.
func (s *shares) count(root *qconf.ShareNode) {
	s.tasks = map[shareOf]int{}
	projects := map[string]bool{}
	var collect func(n *qconf.ShareNode)
	collect = func(n *qconf.ShareNode) {
		projects[n.Name] = projects[n.Name] || n.Project
		for _, child := range n.Children {
			collect(child)
		}
	}
	collect(root)
	for _, j := range s.view.cell.Jobs() {
		n := j.Scheduled().Tasks.Len()
		for _, t := range j.Tasks() {
			if t.Running() != nil {
				n++
			}
		}
		project := j.Project
		if !projects[project] {
			project = ""
		}
		s.tasks[shareOf{j.Owner(), project}] += n
		if project != "" {
			s.tasks[shareOf{project: project}] += n
		}
	}
}

// entitle fills in the target shares of the nodes that have tasks, which share tree tickets
// follow.
func (s *shares) entitle(root *shareNode) {
	if root.row.Jobs > 0 {
		s.divide(root, tickets.Whole)
	}
}

func (s *shares) divide(x *shareNode, own tickets.Portion) {
	x.row.LongTarget, x.row.ShortTarget = own.Long, own.Short
	var active []*shareNode
	var portions []tickets.Portion
	for _, child := range x.children {
		if child.row.Jobs > 0 {
			active = append(active, child)
			portions = append(portions, tickets.Portion{Shares: float64(child.row.Shares), Usage: child.usage})
		}
	}
	tickets.Divide(own, portions, s.view.cell.Cluster().Scheduler().CompensationFactor)
	for i, child := range active {
		s.divide(child, portions[i])
	}
}
