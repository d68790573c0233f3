package tickets_test

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler/tickets"
)

// TestNoPolicyGivesMoreThanItHas checks that running tasks divide the tickets of a policy, and that a
// pending task gets at most all of them.
func TestNoPolicyGivesMoreThanItHas(t *testing.T) {
	check(t, func(t *rapid.T) {
		in := draw(t)
		got := tickets.Calculate(in)
		var share, functional, running, pending, override, largest float64
		for i, tix := range got.Tasks {
			for _, v := range []float64{tix.Share, tix.Functional, tix.Override, tix.Total, tix.Portion} {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Fatalf("%+v", tix)
				}
			}
			if !near(tix.Total, tix.Share+tix.Functional+tix.Override) {
				t.Fatalf("%+v does not add up", tix)
			}
			largest = max(largest, tix.Total)
			if in.Tasks[i].Running {
				share, functional, running = share+tix.Share, functional+tix.Functional, running+tix.Portion
				override += tix.Override
				continue
			}
			pending += tix.Portion
			if tix.Share > in.Config.TicketsShare*(1+1e-9) {
				t.Fatalf("a pending task has %g of %g tickets", tix.Share, in.Config.TicketsShare)
			}
		}
		const rounding = 1 + 1e-9
		if share > in.Config.TicketsShare*rounding || functional > in.Config.TicketsFunctional*rounding || running > rounding || pending > rounding {
			t.Fatalf("share tree %g of %g, functional %g of %g, portions %g and %g", share, in.Config.TicketsShare, functional, in.Config.TicketsFunctional, running, pending)
		}
		if got.Max < largest || !near(got.ActiveOverride, override) {
			t.Fatalf("the largest is %g, and not %g; override %g, and not %g", largest, got.Max, override, got.ActiveOverride)
		}
	})
}

// TestOverrideTicketsAreShared checks that shared override tickets of an object are divided among its
// running tasks.
func TestOverrideTicketsAreShared(t *testing.T) {
	check(t, func(t *rapid.T) {
		in := draw(t)
		in.Config.ShareOverrideTickets = true
		var all float64
		for _, objects := range [][]tickets.Entity{in.Users, in.Projects, in.Departments} {
			for _, o := range objects {
				all += o.OverrideTickets
			}
		}
		for i := range in.Tasks {
			in.Tasks[i].Running = true
			all += in.Tasks[i].OverrideTickets
		}
		if got := tickets.Calculate(in).ActiveOverride; got > all*(1+1e-9) {
			t.Fatalf("%g of %g tickets", got, all)
		}
	})
}

func TestEqualInputGivesEqualOutput(t *testing.T) {
	check(t, func(t *rapid.T) {
		in := draw(t)
		want := tickets.Calculate(in)
		if got := tickets.Calculate(in); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%v", got, want)
		}
		// And the order of the tasks does not matter, but for rounding: numbers are
		// added up in another order. Values that are equal but for rounding may
		// change places, so hierarchies and functional shares are left out.
		in.Config.PolicyHierarchy = ""
		in.Config.TicketsFunctional = 0
		want = tickets.Calculate(in)
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range in.Tasks {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "order")
		other := *in
		other.Tasks = nil
		for _, i := range order {
			other.Tasks = append(other.Tasks, in.Tasks[i])
		}
		got := tickets.Calculate(&other)
		for at, i := range order {
			if a, b := got.Tasks[at], want.Tasks[i]; !near(a.Share, b.Share) || !near(a.Override, b.Override) {
				t.Fatalf("task %d has %+v, and %+v in another order", i, a, b)
			}
		}
	})
}

// TestHierarchyDecidesWhoIsFirst checks that the hierarchy decides which of three jobs of a user gets
// the larger portions of a policy.
func TestHierarchyDecidesWhoIsFirst(t *testing.T) {
	input := func(hierarchy string) *tickets.Input {
		in := &tickets.Input{
			Config: tickets.Config{
				TicketsShare: 1200, TicketsFunctional: 1200, WeightUser: 1, ShareFunctionalShares: true, ShareOverrideTickets: true,
				MaxFunctionalJobsToSchedule: 200, PolicyHierarchy: hierarchy,
			},
			Users:    []tickets.Entity{{FunctionalShares: 10}},
			Projects: []tickets.Entity{{OverrideTickets: 100000}},
		}
		tree, err := tickets.NewTree([]tickets.Node{
			{Name: "Root", Parent: tickets.None, Shares: 1}, {Name: "default", Kind: tickets.DefaultNode, Parent: 0, Shares: 1},
		}, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		in.Tree = tree
		// Three jobs of a user: a plain one, one with job shares, and one of a project
		// with override tickets. All are below the same node.
		for i, task := range []tickets.Task{{}, {JobShares: 5}, {Project: tickets.RefTo(0)}} {
			task.Job, task.User, task.Slots, task.Leaf = uint32(i), tickets.RefTo(0), 1, tree.Leaf(0, tickets.None)
			in.Tasks = append(in.Tasks, task)
		}
		return in
	}
	// What the first, second and third of a node and of a user's jobs get.
	const first, second, third = 1200, 600, 400
	tried := 0
	for hierarchy, want := range map[string]struct{ share, functional [3]float64 }{
		// By themselves, job shares and the job number decide. The job with job shares
		// is in a category of its own, but they weigh nothing.
		"":  {[3]float64{second, first, third}, [3]float64{first, second, third}},
		"F": {[3]float64{second, first, third}, [3]float64{first, second, third}},
		"S": {[3]float64{second, first, third}, [3]float64{first, second, third}},
		"O": {[3]float64{second, first, third}, [3]float64{first, second, third}},
		// After O, the job with the override tickets is first.
		"OF":  {[3]float64{second, first, third}, [3]float64{second, third, first}},
		"OS":  {[3]float64{third, second, first}, [3]float64{first, second, third}},
		"OFS": {[3]float64{second, third, first}, [3]float64{second, third, first}},
		"OSF": {[3]float64{third, second, first}, [3]float64{third, second, first}},
		// After S and F the order is theirs.
		"SF":  {[3]float64{second, first, third}, [3]float64{second, first, third}},
		"FS":  {[3]float64{first, second, third}, [3]float64{first, second, third}},
		"SFO": {[3]float64{second, first, third}, [3]float64{second, first, third}},
		"FSO": {[3]float64{first, second, third}, [3]float64{first, second, third}},
		// In the middle O counts for what comes after it.
		"SO":  {[3]float64{second, first, third}, [3]float64{first, second, third}},
		"FO":  {[3]float64{second, first, third}, [3]float64{first, second, third}},
		"SOF": {[3]float64{second, first, third}, [3]float64{third, second, first}},
		"FOS": {[3]float64{second, third, first}, [3]float64{first, second, third}},
	} {
		got := tickets.Calculate(input(hierarchy))
		for i, tix := range got.Tasks {
			if math.Abs(tix.Share-want.share[i]) > 0.001 || math.Abs(tix.Functional-want.functional[i]) > 0.001 {
				t.Errorf("%q: job %d has %.0f of the share tree and %.0f functional tickets, expected %.0f and %.0f", hierarchy, i, tix.Share, tix.Functional, want.share[i], want.functional[i])
			}
		}
		tried++
	}
	if tried != len(hierarchies) {
		t.Errorf("%d of %d values are tried", tried, len(hierarchies))
	}
}

// TestPendingTasksInTheShareTree checks that pending tasks are below leaves, and are compared at each
// node above.
func TestPendingTasksInTheShareTree(t *testing.T) {
	root := tickets.Node{Name: "Root", Parent: tickets.None, Shares: 1}
	user := func(index, parent int32, shares float64) tickets.Node {
		return tickets.Node{Kind: tickets.UserNode, Index: index, Parent: parent, Shares: shares}
	}
	group := func(parent int32) tickets.Node { return tickets.Node{Parent: parent, Shares: 1} }
	for name, c := range map[string]struct {
		nodes     []tickets.Node
		hierarchy string
		used      []float64
		tasks     []tickets.Task
		want      []float64
	}{
		"a root with one child is none": {
			nodes: []tickets.Node{root, group(0), group(1), user(0, 2, 3), user(1, 2, 1)},
			used:  []float64{90, 10, 0},
			tasks: []tickets.Task{{User: tickets.RefTo(0)}, {User: tickets.RefTo(1)}, {User: tickets.RefTo(0)}},
			// 9/90 and 1/10: the same for both.
			want: []float64{500, 500, 250},
		},
		"one leaf is ranked as a whole": {
			nodes: []tickets.Node{root, group(0), user(0, 1, 3), user(1, 1, 1)},
			tasks: []tickets.Task{{User: tickets.RefTo(0)}, {User: tickets.RefTo(0), JobShares: 1, Slots: 4}, {User: tickets.RefTo(0)}},
			want:  []float64{200, 1000, 1000. / 6},
		},
		"the branches of two children are ranked each for itself": {
			nodes: []tickets.Node{root, group(0), user(0, 1, 1), user(1, 1, 1), user(2, 0, 1)},
			used:  []float64{30, 10, 40},
			tasks: []tickets.Task{{User: tickets.RefTo(0)}, {User: tickets.RefTo(1)}, {User: tickets.RefTo(2)}, {User: tickets.RefTo(2)}},
			// In the group u1 is first: it has used less.
			want: []float64{250, 500, 500, 250},
		},
		"the least usage is a part of the whole tree": {
			nodes: []tickets.Node{root, group(0), user(0, 1, 1), user(1, 1, 1), user(2, 0, 1)},
			used:  []float64{0, 0.4, 1000},
			tasks: []tickets.Task{{User: tickets.RefTo(0), Running: true}, {User: tickets.RefTo(1), Running: true}, {User: tickets.RefTo(2), Running: true}},
			// A quarter and a half of the tree; 1/0.25 and 1/0.4 in the group, and
			// 1/0.5 and 1/1000 at the top.
			want: []float64{1000 * 2 / 2.001 * 4 / 6.5, 1000 * 2 / 2.001 * 2.5 / 6.5, 1000 * 0.001 / 2.001},
		},
		"job shares count as a hundredth of a ticket": {
			nodes: []tickets.Node{root, user(0, 0, 1)}, hierarchy: "OS",
			tasks: []tickets.Task{
				{User: tickets.RefTo(0), JobShares: 90, OverrideTickets: 1},
				{User: tickets.RefTo(0), OverrideTickets: 2},
				{User: tickets.RefTo(0), JobShares: 190, OverrideTickets: 1},
			},
			want: []float64{1000. / 3, 500, 1000},
		},
		"tickets of higher policies count in each branch": {
			nodes: []tickets.Node{root, group(0), user(0, 1, 1), user(1, 1, 1), user(2, 0, 1)}, hierarchy: "OS",
			used:  []float64{30, 10, 40},
			tasks: []tickets.Task{{User: tickets.RefTo(0), OverrideTickets: 5000}, {User: tickets.RefTo(1)}, {User: tickets.RefTo(2)}, {User: tickets.RefTo(2), OverrideTickets: 1}},
			want:  []float64{500, 250, 250, 500},
		},
		"what is not reached by the functional policy has tickets of it all the same, but for the first of its kind": {
			nodes: []tickets.Node{root, user(0, 0, 1)}, hierarchy: "FOS",
			tasks: []tickets.Task{
				{User: tickets.RefTo(0), OverrideTickets: 5},
				{User: tickets.RefTo(0), JobShares: 41},
				{User: tickets.RefTo(0), JobShares: 40},
				{User: tickets.RefTo(0), JobShares: 40},
				{User: tickets.RefTo(0)},
			},
			// Task 1 is reached, and tasks 2 and 3 would have had nearly as much.
			want: []float64{1000. / 3, 1000, 250, 500, 200},
		},
		"tasks that run are before all others": {
			nodes: []tickets.Node{root, user(0, 0, 1)},
			tasks: []tickets.Task{{User: tickets.RefTo(0), JobShares: 50}, {User: tickets.RefTo(0), Running: true, Slots: 2}},
			want:  []float64{1000. / 3, 1000},
		},
	} {
		in := &tickets.Input{
			Config: tickets.Config{
				TicketsShare: 1000, TicketsFunctional: 1000, WeightJob: 1, MaxFunctionalJobsToSchedule: 1, PolicyHierarchy: c.hierarchy,
				UsageWeights: tickets.UsageWeights{Weights: tickets.Amounts{tickets.CPU: 1}},
			},
			Users:  make([]tickets.Entity, 3),
			Ledger: &tickets.Ledger{Users: make([]tickets.UserUsage, 3)},
		}
		for u, v := range c.used {
			in.Ledger.Users[u].Decayed[tickets.CPU] = v
		}
		var err error
		if in.Tree, err = tickets.NewTree(c.nodes, 3, 0); err != nil {
			t.Fatal(err)
		}
		for i, task := range c.tasks {
			task.Job, task.Leaf = uint32(i), in.Tree.Leaf(task.User.Index(), tickets.None)
			in.Tasks = append(in.Tasks, task)
		}
		for i, tix := range tickets.Calculate(in).Tasks {
			if !near(tix.Share, c.want[i]) {
				t.Errorf("%s: task %d has %g tickets, expected %g", name, i, tix.Share, c.want[i])
			}
		}
	}
}

func TestWhatIsOffGivesNothing(t *testing.T) {
	for name, config := range map[string]tickets.Config{
		"no policy at all": {},
		"no weights":       {TicketsFunctional: 1000, MaxFunctionalJobsToSchedule: 10},
		"no jobs to look at": {
			TicketsFunctional: 1000, WeightUser: 1,
		},
		"no tree": {TicketsShare: 1000},
	} {
		in := &tickets.Input{Config: config, Users: []tickets.Entity{{FunctionalShares: 10}}}
		for i := range 3 {
			in.Tasks = append(in.Tasks, tickets.Task{Job: uint32(i), User: tickets.RefTo(0)})
		}
		if got := tickets.Calculate(in); got.Max != 0 || got.Tasks[0] != (tickets.Tickets{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := tickets.Calculate(&tickets.Input{}); len(got.Tasks) != 0 || got.Max != 0 {
		t.Errorf("%+v of nothing", got)
	}
}

func TestPendingTasks(t *testing.T) {
	for name, c := range map[string][3]int{
		"nothing is free: only the next": {50, 0, 1},
		"those that can start, and one":  {50, 7, 8},
		"no more than the limit":         {50, 100, 50},
	} {
		if got := tickets.PendingTasks(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func BenchmarkCalculate(b *testing.B) {
	policies := map[string]func(*tickets.Config){
		"functional": func(c *tickets.Config) { c.TicketsFunctional = 1e6 },
		"share tree": func(c *tickets.Config) { c.TicketsShare = 1e6 },
		"all":        func(c *tickets.Config) { c.TicketsShare, c.TicketsFunctional = 1e6, 1e6 },
	}
	const users, projects = 100, 10
	for _, policy := range []string{"override", "functional", "share tree", "all"} {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s, %d jobs", policy, n), func(b *testing.B) {
				in := &tickets.Input{Config: tickets.Config{
					WeightUser: 0.5, WeightProject: 0.5, ShareFunctionalShares: true, ShareOverrideTickets: true,
					MaxFunctionalJobsToSchedule: 200, CompensationFactor: 5, PolicyHierarchy: "OFS",
					UsageWeights: tickets.UsageWeights{Weights: tickets.Amounts{tickets.CPU: 1}},
				}, Ledger: &tickets.Ledger{Users: make([]tickets.UserUsage, users), Projects: make([]tickets.StampedUsage, projects)}}
				if set := policies[policy]; set != nil {
					set(&in.Config)
				}
				nodes := []tickets.Node{{Name: "Root", Parent: tickets.None, Shares: 1}}
				for p := range int32(projects) {
					in.Projects = append(in.Projects, tickets.Entity{FunctionalShares: float64(p + 1), OverrideTickets: 10})
					nodes = append(nodes, tickets.Node{Name: fmt.Sprint("p", p), Kind: tickets.ProjectNode, Index: p, Parent: 0, Shares: 10})
					nodes = append(nodes, tickets.Node{Name: "default", Kind: tickets.DefaultNode, Parent: int32(len(nodes) - 1), Shares: 10})
				}
				for u := range int32(users) {
					in.Users = append(in.Users, tickets.Entity{FunctionalShares: float64(u + 1), OverrideTickets: 10})
					in.Ledger.Book(u, u%projects, &tickets.Amounts{tickets.CPU: float64(u) * 1000}, &tickets.Amounts{})
				}
				tree, err := tickets.NewTree(nodes, users, projects)
				if err != nil {
					b.Fatal(err)
				}
				in.Tree = tree
				for i := range n {
					user := int32(i * 7919 % users)
					task := tickets.Task{Job: uint32(i), Changed: int64(i / 10), User: tickets.RefTo(user), Project: tickets.RefTo(user % projects), Slots: 1, Running: i < n/100}
					task.Leaf = tree.Leaf(task.User.Index(), task.Project.Index())
					in.Tasks = append(in.Tasks, task)
				}
				b.ReportAllocs()
				for b.Loop() {
					tickets.Calculate(in)
				}
			})
		}
	}
}

// TestOrderOfJobsWithEqualShares checks which of several jobs with the same shares comes first: in
// a policy of the hierarchy the one with the smallest number, otherwise the one that was changed
// first.
func TestOrderOfJobsWithEqualShares(t *testing.T) {
	for hierarchy, want := range map[string][2]string{
		"": {"2 3 1", "2 3 1"}, "S": {"2 3 1", "2 3 1"}, "F": {"1 2 3", "2 3 1"}, "O": {"2 3 1", "1 2 3"}, "OF": {"1 2 3", "1 2 3"},
	} {
		in := &tickets.Input{
			Config: tickets.Config{TicketsFunctional: 10000, WeightUser: 1, ShareFunctionalShares: true, ShareOverrideTickets: true, MaxFunctionalJobsToSchedule: 10, PolicyHierarchy: hierarchy},
			Users:  []tickets.Entity{{FunctionalShares: 10, OverrideTickets: 60}},
		}
		for job, changed := range []int64{4, 2, 3} {
			in.Tasks = append(in.Tasks, tickets.Task{Job: uint32(job + 1), Changed: changed, User: tickets.RefTo(0), Slots: 1})
		}
		r := tickets.Calculate(in)
		order := func(of func(*tickets.Tickets) float64) string {
			jobs := []int{0, 1, 2}
			slices.SortStableFunc(jobs, func(i, j int) int { return cmp.Compare(of(&r.Tasks[j]), of(&r.Tasks[i])) })
			return fmt.Sprintf("%d %d %d", jobs[0]+1, jobs[1]+1, jobs[2]+1)
		}
		got := [2]string{order(func(x *tickets.Tickets) float64 { return x.Functional }), order(func(x *tickets.Tickets) float64 { return x.Override })}
		if got != want {
			t.Errorf("policy_hierarchy %q: functional and override tickets in the order %q, want %q", hierarchy, got, want)
		}
	}
}
