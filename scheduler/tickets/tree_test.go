package tickets_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler/tickets"
)

var noUsage = tickets.Amounts{}

func TestLeaves(t *testing.T) {
	const a, b, c, p, q, r = 0, 1, 2, 0, 1, 2
	tree, err := tickets.NewTree([]tickets.Node{
		0:  {Name: "Root", Parent: tickets.None, Shares: 1},
		1:  {Name: "group", Parent: 0, Shares: 10},
		2:  {Name: "p", Kind: tickets.ProjectNode, Index: p, Parent: 1, Shares: 10},
		3:  {Name: "inner", Parent: 2, Shares: 10},
		4:  {Name: "b", Kind: tickets.UserNode, Index: b, Parent: 3, Shares: 10},
		5:  {Name: "default", Kind: tickets.DefaultNode, Parent: 2, Shares: 7},
		6:  {Name: "q", Kind: tickets.ProjectNode, Index: q, Parent: 1, Shares: 10},
		7:  {Name: "a", Kind: tickets.UserNode, Index: a, Parent: 1, Shares: 10},
		8:  {Name: "a", Kind: tickets.UserNode, Index: a, Parent: 0, Shares: 10},
		9:  {Name: "default", Kind: tickets.DefaultNode, Parent: 0, Shares: 5},
		10: {Name: "default", Kind: tickets.DefaultNode, Parent: 1, Shares: 6},
		11: {Name: "q", Kind: tickets.ProjectNode, Index: q, Parent: 0, Shares: 10},
	}, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]struct{ user, project, want int32 }{
		"a user's first node":                      {a, tickets.None, 7},
		"a user below a group of a project":        {b, p, 4},
		"a project without nodes is the leaf":      {b, q, 6},
		"a project that the tree lacks":            {a, r, tickets.None},
		"without a user object there is no leaf":   {tickets.None, tickets.None, tickets.None},
		"a project is a leaf without user objects": {tickets.None, q, 6},
	} {
		if got := tree.Leaf(w.user, w.project).Index(); got != w.want {
			t.Errorf("%s: %d, expected %d", name, got, w.want)
		}
	}
	// A node inside a project is not found outside: one is made, and found again.
	if first, again := tree.Leaf(b, tickets.None).Index(), tree.Leaf(b, tickets.None).Index(); first != 12 || again != first {
		t.Errorf("%d and %d", first, again)
	}
	if other := tree.Leaf(c, tickets.None).Index(); other != 13 {
		t.Errorf("another user has the leaf %d", other)
	}
	if inside := tree.Leaf(a, p).Index(); inside != 14 {
		t.Errorf("in a project the leaf is %d", inside)
	}
	// The first default node from top to bottom is that of the group.
	var shown []string
	for _, r := range tree.Monitor(&tickets.Monitoring{Names: []string{"a", "b", "c"}}) {
		if strings.Contains(r.Path, "default/") {
			shown = append(shown, r.Path)
		}
	}
	if want := []string{"/group/p/default/a", "/group/p/default/c", "/group/default/b", "/group/default/c"}; !slices.Equal(shown, want) {
		t.Errorf("below default nodes are %q, expected %q", shown, want)
	}
}

func TestTreesThatAreRefused(t *testing.T) {
	root := tickets.Node{Name: "Root", Parent: tickets.None}
	for name, nodes := range map[string][]tickets.Node{
		"no nodes":               {},
		"has the parent 0":       {{Name: "Root", Parent: 0}},
		"has the parent 2":       {root, {Name: "x", Parent: 2}, {Name: "y", Parent: 0}},
		"has the parent 1":       {root, {Name: "x", Parent: 1}},
		"has the parent -1":      {root, root},
		"has the index 2 of 2":   {root, {Name: "u", Kind: tickets.UserNode, Index: 2}},
		"has the index -5 of 1":  {root, {Name: "p", Kind: tickets.ProjectNode, Index: -5}},
		"has -1 shares":          {root, {Name: "x", Shares: -1}},
		"the node \"x\" has the": {root, {Name: "x", Parent: 7}},
	} {
		if _, err := tickets.NewTree(nodes, 2, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUsageConvergesToTheTree checks a cluster whose users always have more jobs than it has slots:
// after some time all users have used their shares of the tree.
func TestUsageConvergesToTheTree(t *testing.T) {
	const users, projects, slots = 5, 1, 60
	nodes := []tickets.Node{
		{Name: "Root", Parent: tickets.None, Shares: 1},
		{Name: "u0", Kind: tickets.UserNode, Index: 0, Parent: 0, Shares: 50},
		{Name: "u1", Kind: tickets.UserNode, Index: 1, Parent: 0, Shares: 20},
		{Name: "group", Parent: 0, Shares: 30},
		{Name: "u2", Kind: tickets.UserNode, Index: 2, Parent: 3, Shares: 200},
		{Name: "u3", Kind: tickets.UserNode, Index: 3, Parent: 3, Shares: 100},
	}
	want := []float64{0.5, 0.2, 0.2, 0.1}
	simulate := func(rounds int, l *tickets.Ledger, d *tickets.Decay, nodes []tickets.Node, from int64, active []int32) (used []float64) {
		t.Helper()
		used = make([]float64, users)
		in := &tickets.Input{Config: tickets.Config{TicketsShare: 1e6, UsageWeights: tickets.UsageWeights{Weights: tickets.Amounts{tickets.CPU: 1}}}, Users: make([]tickets.Entity, users), Projects: make([]tickets.Entity, projects), Ledger: l}
		for round := range rounds {
			tree, err := tickets.NewTree(nodes, users, projects)
			if err != nil {
				t.Fatal(err)
			}
			in.Tree, in.Tasks = tree, in.Tasks[:0]
			for _, u := range active {
				for range slots {
					in.Tasks = append(in.Tasks, tickets.Task{Job: uint32(len(in.Tasks)), User: tickets.RefTo(u), Leaf: tree.Leaf(u, tickets.None), Slots: 1})
				}
			}
			l.Decay(d, from+int64(round)*60)
			got := tickets.Calculate(in)
			order := make([]int, len(in.Tasks))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(i, j int) int {
				if got.Tasks[i].Total > got.Tasks[j].Total {
					return -1
				} else if got.Tasks[i].Total < got.Tasks[j].Total {
					return 1
				}
				return i - j
			})
			for _, i := range order[:slots] {
				u := in.Tasks[i].User.Index()
				l.Book(u, tickets.None, &tickets.Amounts{tickets.CPU: 60}, &noUsage)
				used[u] += 1 / float64(rounds*slots)
			}
		}
		return used
	}
	near := func(name string, used, want []float64) {
		t.Helper()
		for u := range want {
			if math.Abs(used[u]-want[u]) > 0.03 {
				t.Errorf("%s: user %d has used %.3f, expected %.3f", name, u, used[u], want[u])
			}
		}
	}
	fresh := func() *tickets.Ledger {
		return &tickets.Ledger{Users: make([]tickets.UserUsage, users), Projects: make([]tickets.StampedUsage, projects)}
	}
	never, hourly := tickets.NewDecay(0, nil), tickets.NewDecay(1, nil)
	near("from nothing", simulate(400, fresh(), never, nodes, 1e6, []int32{0, 1, 2, 3}), want)

	// Who has used nothing gets more until it is even; in the end, with a halftime,
	// the past is forgotten.
	l := fresh()
	simulate(400, l, hourly, nodes, 1e6, []int32{0, 1})
	simulate(1000, l, hourly, nodes, 1e6+400*60, []int32{0, 1, 2, 3})
	near("after a while", simulate(400, l, hourly, nodes, 1e6+1400*60, []int32{0, 1, 2, 3}), want)

	// Users that the tree does not name have the shares of the default node, each.
	withDefault := append(slices.Clone(nodes[:2]), tickets.Node{Name: "default", Kind: tickets.DefaultNode, Parent: 0, Shares: 25})
	near("default users", simulate(400, fresh(), never, withDefault, 1e6, []int32{0, 2, 4}), []float64{0.5, 0, 0.25, 0, 0.25})
}

// TestUsageSurvivesTheNode checks that usage belongs to users: a node that is removed and added again
// has its usage.
func TestUsageSurvivesTheNode(t *testing.T) {
	l := &tickets.Ledger{Users: make([]tickets.UserUsage, 2)}
	l.Book(0, tickets.None, &tickets.Amounts{tickets.CPU: 500}, &noUsage)
	root := tickets.Node{Name: "Root", Parent: tickets.None, Shares: 1}
	u0 := tickets.Node{Name: "u0", Kind: tickets.UserNode, Index: 0, Shares: 10}
	u1 := tickets.Node{Name: "u1", Kind: tickets.UserNode, Index: 1, Shares: 10}
	w := &tickets.UsageWeights{Weights: tickets.Amounts{tickets.CPU: 1}}
	for name, c := range map[string]struct {
		nodes []tickets.Node
		want  map[string]float64
	}{
		"both":     {[]tickets.Node{root, u0, u1}, map[string]float64{"/": 500, "/u0": 500, "/u1": 0}},
		"removed":  {[]tickets.Node{root, u1}, map[string]float64{"/": 0, "/u1": 0}},
		"restored": {[]tickets.Node{root, u1, u0}, map[string]float64{"/": 500, "/u0": 500, "/u1": 0}},
	} {
		tree, err := tickets.NewTree(c.nodes, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows := tree.Monitor(&tickets.Monitoring{Ledger: l, Weights: *w, Names: []string{"u0", "u1"}})
		if len(rows) != len(c.want) {
			t.Errorf("%s: %+v", name, rows)
		}
		for _, r := range rows {
			if r.Usage != c.want[r.Path] {
				t.Errorf("%s: %s has used %g", name, r.Path, r.Usage)
			}
		}
	}
}

func TestMonitorLeavesOutWhoMayNotUseAProject(t *testing.T) {
	tree, err := tickets.NewTree([]tickets.Node{
		{Name: "Root", Parent: tickets.None, Shares: 1},
		{Name: "p", Kind: tickets.ProjectNode, Parent: 0, Shares: 1},
		{Name: "default", Kind: tickets.DefaultNode, Parent: 1, Shares: 1},
	}, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	leaf := tree.Leaf(1, 0) // what was made for tasks is not printed
	m := &tickets.Monitoring{
		Names:   []string{"z", "b", "", "a", "c"}, // one of them has gone
		Allowed: func(user, _ int32) bool { return user != 3 }, Tasks: map[tickets.Ref]int{leaf: 4},
	}
	var paths []string
	for _, r := range tree.Monitor(m) {
		paths = append(paths, fmt.Sprintf("%s=%d", r.Path, r.Tasks))
	}
	if want := []string{"/=4", "/p=4", "/p/default=4", "/p/default/b=4", "/p/default/c=0", "/p/default/z=0"}; !slices.Equal(paths, want) {
		t.Errorf("%q, expected %q", paths, want)
	}
}

func TestBooking(t *testing.T) {
	l := &tickets.Ledger{Users: make([]tickets.UserUsage, 1), Projects: make([]tickets.StampedUsage, 3)}
	cpu := func(v float64) *tickets.Amounts { return &tickets.Amounts{tickets.CPU: v} }
	l.Book(0, tickets.None, cpu(10), cpu(4))
	l.Book(0, tickets.None, cpu(3), cpu(4)) // a host that counts from the beginning again
	l.Book(0, 2, cpu(7), &noUsage)
	l.Book(0, 1, cpu(5), &noUsage)
	l.Book(tickets.None, 1, cpu(100), &noUsage)
	u := &l.Users[0]
	for name, c := range map[string]struct {
		usage *tickets.Usage
		want  float64
	}{
		"without a project": {u.In(tickets.None), 6},
		"in a project":      {u.In(2), 7},
		"in another":        {u.In(1), 5},
		"of the project":    {&l.Projects[2].Usage, 7},
		"of all users":      {&l.Projects[1].Usage, 105},
	} {
		if c.usage.Decayed != *cpu(c.want) || c.usage.LongTerm != *cpu(c.want) {
			t.Errorf("%s: %+v, expected %g", name, c.usage, c.want)
		}
	}
	if u.In(0) != nil {
		t.Errorf("%+v in a project without jobs", u.In(0))
	}
}

func TestDecay(t *testing.T) {
	const hour = 3600
	for name, c := range map[string]struct {
		halftime   float64
		exceptions []tickets.HalfLife
		kind       tickets.UsageType
		stamp, now int64
		want       float64
		stamped    int64
	}{
		"not quite a half after a halftime":        {1, nil, tickets.CPU, 1000, 1000 + hour, 497.987, 1000 + hour},
		"after ten of them":                        {1, nil, tickets.CPU, 1000, 1000 + 10*hour, 0.938, 1000 + 10*hour},
		"without a halftime all stays":             {0, nil, tickets.CPU, 1000, 1000 + hour, 1000, 1000 + hour},
		"what was never stamped begins to decay":   {1, nil, tickets.CPU, 0, 1000, 1000, 1000},
		"a time of its own":                        {1, []tickets.HalfLife{{Type: tickets.Mem, Minutes: 30}}, tickets.Mem, 1000, 1000 + hour, 245.966, 1000 + hour},
		"no decay of its own":                      {1, []tickets.HalfLife{{Type: tickets.IO}}, tickets.IO, 1000, 1000 + hour, 1000, 1000 + hour},
		"forgotten at once":                        {1, []tickets.HalfLife{{Type: tickets.CPU, Minutes: -1}}, tickets.CPU, 1000, 1001, 0, 1001},
		"shorter than possible":                    {1, []tickets.HalfLife{{Type: tickets.CPU, Minutes: 0.5}}, tickets.CPU, 1000, 1090, 0, 1090},
		"finished jobs are forgotten":              {1, nil, tickets.FinishedJobs, 1000, 1001, 0, 1001},
		"unless there are exceptions":              {1, []tickets.HalfLife{{Type: tickets.CPU, Minutes: 30}}, tickets.FinishedJobs, 1000, 1000 + hour, 497.987, 1000 + hour},
		"in the same second nothing is forgotten":  {1, nil, tickets.FinishedJobs, 1000, 1000, 1000, 1000},
		"a clock that was set back forgets nobody": {1, nil, tickets.CPU, 5000, 1000, 1000, 5000},
	} {
		l := &tickets.Ledger{Users: make([]tickets.UserUsage, 1), Projects: make([]tickets.StampedUsage, 1)}
		var used tickets.Amounts
		used[c.kind] = 1000
		l.Book(0, 0, &used, &noUsage)
		l.Book(0, tickets.None, &used, &noUsage)
		l.Projects[0].Usage = l.Users[0].Usage
		l.Users[0].Stamp, l.Projects[0].Stamp = c.stamp, c.stamp
		d := tickets.NewDecay(c.halftime, c.exceptions)
		l.Decay(d, c.now)
		for where, u := range map[string]*tickets.Usage{"of the user": l.Users[0].In(tickets.None), "in the project": l.Users[0].In(0), "of the project": &l.Projects[0].Usage} {
			if !(math.Abs(u.Decayed[c.kind]-c.want) <= 0.001) || u.LongTerm[c.kind] != 1000 {
				t.Errorf("%s, %s: %g and %g, expected %g", name, where, u.Decayed[c.kind], u.LongTerm[c.kind], c.want)
			}
		}
		if l.Users[0].Stamp != c.stamped || l.Projects[0].Stamp != c.stamped {
			t.Errorf("%s: stamped %d and %d, expected %d", name, l.Users[0].Stamp, l.Projects[0].Stamp, c.stamped)
		}
		// In steps it is the same.
		if c.stamp > 0 && c.now > c.stamp+1 {
			l.Users[0].Stamp, l.Users[0].Decayed = c.stamp, used
			for now := c.stamp; now <= c.now; now += (c.now - c.stamp) / 10 {
				l.Decay(d, now)
			}
			if math.Abs(l.Users[0].Decayed[c.kind]-c.want) > 0.001 {
				t.Errorf("%s: %g in steps", name, l.Users[0].Decayed[c.kind])
			}
		}
	}
}

func TestUsageWeights(t *testing.T) {
	l := &tickets.Ledger{Users: make([]tickets.UserUsage, 1)}
	l.Book(0, tickets.None, &tickets.Amounts{100, 10, 1, 0}, &noUsage)
	tree, err := tickets.NewTree([]tickets.Node{{Name: "Root", Parent: tickets.None}, {Name: "u", Kind: tickets.UserNode}}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		weights tickets.UsageWeights
		want    float64
	}{
		"one":                                {tickets.UsageWeights{Weights: tickets.Amounts{1}}, 100},
		"in parts of their sum":              {tickets.UsageWeights{Weights: tickets.Amounts{2, 1, 1}}, 52.75},
		"names that no usage has count, too": {tickets.UsageWeights{Weights: tickets.Amounts{1}, Others: 1}, 50},
		"none":                               {tickets.UsageWeights{}, 0},
	} {
		if got := tree.Monitor(&tickets.Monitoring{Ledger: l, Weights: c.weights, Names: []string{"u"}})[0].Usage; got != c.want {
			t.Errorf("%s: %g, expected %g", name, got, c.want)
		}
	}
}
