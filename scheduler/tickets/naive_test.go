package tickets_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler/tickets"
)

// check tries more than rapid does by itself: what comes out is cheap.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 10 {
		rapid.Check(t, property)
	}
}

// draw makes an input with a share tree of two levels, projects and all kinds of
// shares.
func draw(t *rapid.T) *tickets.Input {
	const objects = 4
	small := rapid.SampledFrom([]float64{0, 0, 1, 2, 3, 10, 100})
	draws := func(name string) []tickets.Entity {
		var all []tickets.Entity
		for range objects {
			all = append(all, tickets.Entity{FunctionalShares: small.Draw(t, name), OverrideTickets: small.Draw(t, name)})
		}
		return all
	}
	in := &tickets.Input{
		Config: tickets.Config{
			TicketsShare:      rapid.SampledFrom([]float64{0, 1000, 1e6}).Draw(t, "weight_tickets_share"),
			TicketsFunctional: rapid.SampledFrom([]float64{0, 1000, 1e6}).Draw(t, "weight_tickets_functional"),
			WeightUser:        0.4, WeightProject: 0.3, WeightDepartment: 0.2, WeightJob: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "weight_job"),
			ShareFunctionalShares: rapid.Bool().Draw(t, "share_functional_shares"), ShareOverrideTickets: rapid.Bool().Draw(t, "share_override_tickets"),
			MaxFunctionalJobsToSchedule: rapid.SampledFrom([]int{0, 1, 3, 200}).Draw(t, "max_functional_jobs_to_schedule"),
			CompensationFactor:          rapid.SampledFrom([]float64{0, 1, 2, 5}).Draw(t, "compensation_factor"),
			UsageWeights:                tickets.UsageWeights{Weights: tickets.Amounts{tickets.CPU: 1}},
			PolicyHierarchy:             rapid.SampledFrom(hierarchies).Draw(t, "policy_hierarchy"),
		},
		Users: draws("user"), Projects: draws("project"), Departments: draws("department"),
		Ledger: &tickets.Ledger{Users: make([]tickets.UserUsage, objects), Projects: make([]tickets.StampedUsage, objects)},
	}
	tree, err := tickets.NewTree([]tickets.Node{
		{Name: "Root", Parent: tickets.None, Shares: 1},
		{Name: "group", Parent: 0, Shares: small.Draw(t, "shares")},
		{Name: "u0", Kind: tickets.UserNode, Index: 0, Parent: 1, Shares: 10},
		{Name: "u1", Kind: tickets.UserNode, Index: 1, Parent: 1, Shares: small.Draw(t, "shares")},
		{Name: "p0", Kind: tickets.ProjectNode, Index: 0, Parent: 1, Shares: 30},
		{Name: "p1", Kind: tickets.ProjectNode, Index: 1, Parent: 0, Shares: 20},
		{Name: "u0", Kind: tickets.UserNode, Index: 0, Parent: 5, Shares: 20},
		{Name: "default", Kind: tickets.DefaultNode, Parent: 5, Shares: 10},
		{Name: "default", Kind: tickets.DefaultNode, Parent: 0, Shares: 10},
	}, objects, objects)
	if err != nil {
		t.Fatal(err)
	}
	in.Tree = tree
	index := rapid.Int32Range(-1, objects-1)
	for range rapid.IntRange(0, 12).Draw(t, "bookings") {
		used := tickets.Amounts{tickets.CPU: rapid.Float64Range(0, 1e6).Draw(t, "cpu")}
		in.Ledger.Book(index.Draw(t, "user"), index.Draw(t, "project"), &used, &tickets.Amounts{})
	}
	for i := range rapid.IntRange(0, 25).Draw(t, "tasks") {
		task := tickets.Task{
			Job: uint32(i / 2), Task: uint32(i % 2), Changed: rapid.Int64Range(0, 3).Draw(t, "changed"),
			User: tickets.RefTo(rapid.Int32Range(0, objects-1).Draw(t, "user")), Project: tickets.RefTo(index.Draw(t, "project")),
			Department: tickets.RefTo(index.Draw(t, "department")),
			JobShares:  small.Draw(t, "-js"), OverrideTickets: small.Draw(t, "-ot"), Slots: rapid.Int32Range(1, 4).Draw(t, "slots"),
			Running: rapid.IntRange(0, 3).Draw(t, "running") == 0,
		}
		task.Leaf = tree.Leaf(task.User.Index(), task.Project.Index())
		in.Tasks = append(in.Tasks, task)
	}
	return in
}

// hierarchies are all values of policy_hierarchy.
var hierarchies = []string{"", "O", "F", "S", "OF", "OS", "FO", "FS", "SO", "SF", "OFS", "OSF", "FOS", "FSO", "SOF", "SFO"}

// naive computes the functional and override tickets of pending tasks as they are
// described, looking at each task each time.
type naive struct {
	in        *tickets.Input
	hier      []float64
	f, o      []float64
	unseen    map[int]bool // tasks whose functional tickets no other policy sees
	n         [3]map[int32]float64
	s         [4]float64
	dependent bool
}

func (v *naive) objects(t *tickets.Task) [3]int32 {
	return [3]int32{t.User.Index(), t.Project.Index(), t.Department.Index()}
}

func (v *naive) entity(k int, i int32) tickets.Entity {
	if i == tickets.None {
		return tickets.Entity{}
	}
	return [][]tickets.Entity{v.in.Users, v.in.Projects, v.in.Departments}[k][i]
}

// begin counts the running tasks.
func (v *naive) begin() {
	v.s = [4]float64{}
	for k := range v.n {
		v.n[k] = map[int32]float64{}
	}
	for i := range v.in.Tasks {
		if t := &v.in.Tasks[i]; t.Running {
			v.start(t)
		}
	}
}

func (v *naive) start(t *tickets.Task) {
	v.s[3] += t.JobShares
	for k, i := range v.objects(t) {
		v.n[k][i]++
		if !v.in.Config.ShareFunctionalShares || v.n[k][i] == 1 {
			v.s[k] += v.entity(k, i).FunctionalShares
		}
	}
}

func (v *naive) worth(t *tickets.Task, started bool) float64 {
	c := &v.in.Config
	w := [4]float64{c.WeightUser, c.WeightProject, c.WeightDepartment, c.WeightJob}
	all := w[0] + w[1] + w[2] + w[3]
	sum := func(k int, mine float64) float64 {
		switch {
		case started:
			return v.s[k]
		case k == 3 || !c.ShareFunctionalShares:
			return v.s[k] + 0.001 + mine
		}
		return v.s[k] + 0.001
	}
	// The order of the sum matters, because of rounding: it decides which of two otherwise equal tasks is
	// first.
	var f float64
	for _, k := range []int{0, 2, 1, 3} {
		mine := t.JobShares
		if k < 3 {
			i := v.objects(t)[k]
			mine = v.entity(k, i).FunctionalShares
			if n := v.n[k][i]; c.ShareFunctionalShares && started {
				mine /= n
			} else if c.ShareFunctionalShares {
				mine /= n + 1
			}
		}
		if mine > 0 {
			if weight := w[k] / all; started {
				f += weight * (mine / sum(k, mine))
			} else {
				f += weight * mine / sum(k, mine)
			}
		}
	}
	return c.TicketsFunctional * f
}

func (v *naive) override(t *tickets.Task) float64 {
	part := func(k int, i int32) float64 {
		if v.in.Config.ShareOverrideTickets {
			return v.entity(k, i).OverrideTickets / (v.n[k][i] + 1)
		}
		return v.entity(k, i).OverrideTickets
	}
	// In this order, because of rounding.
	return (part(0, t.User.Index()) + t.OverrideTickets) + (part(1, t.Project.Index()) + part(2, t.Department.Index()))
}

// category returns a key that is equal for tasks that a policy cannot tell apart.
func (v *naive) category(t *tickets.Task, own float64, of func(tickets.Entity) float64) (key [4]float64) {
	for k, i := range v.objects(t) {
		if key[k] = -1; of(v.entity(k, i)) > 0 {
			key[k] = float64(i)
		}
	}
	key[3] = own
	return key
}

// pending are the tasks of a policy, in the order of submission, and their
// categories.
func (v *naive) pending(own func(*tickets.Task) float64, of func(tickets.Entity) float64) (tasks []int, categories map[int][4]float64) {
	categories = map[int][4]float64{}
	for i := range v.in.Tasks {
		t := &v.in.Tasks[i]
		key := v.category(t, own(t), of)
		if !t.Running && key != [4]float64{-1, -1, -1, 0} {
			tasks = append(tasks, i)
			categories[i] = key
		}
	}
	slices.SortFunc(tasks, func(i, j int) int {
		a, b := &v.in.Tasks[i], &v.in.Tasks[j]
		return v.ties(a, b)
	})
	if v.dependent {
		slices.SortStableFunc(tasks, func(i, j int) int { return cmp.Compare(v.hier[j], v.hier[i]) })
	}
	return tasks, categories
}

func (v *naive) functional() {
	v.begin()
	tasks, categories := v.pending(func(t *tickets.Task) float64 { return t.JobShares }, func(e tickets.Entity) float64 { return e.FunctionalShares })
	for round := 0; round < v.in.Config.MaxFunctionalJobsToSchedule && len(tasks) > 0; round++ {
		best, seen := -1, map[[4]float64]float64{}
		for at, i := range tasks {
			if f, ok := seen[categories[i]]; ok {
				v.f[i] = f
				continue
			}
			v.f[i] = v.worth(&v.in.Tasks[i], false)
			seen[categories[i]] = v.f[i]
			if best < 0 || v.better(i, tasks[best]) {
				best = at
			}
		}
		i := tasks[best]
		v.start(&v.in.Tasks[i])
		v.f[i] = v.worth(&v.in.Tasks[i], true)
		tasks = slices.Delete(tasks, best, best+1)
	}
	seen := map[[4]float64]bool{}
	for _, i := range tasks {
		v.unseen[i] = !seen[categories[i]]
		seen[categories[i]] = true
	}
}

func (v *naive) better(i, j int) bool {
	a, b := v.f[i], v.f[j]
	if v.dependent {
		a, b = a+v.hier[i], b+v.hier[j]
	}
	s, t := &v.in.Tasks[i], &v.in.Tasks[j]
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(s.Job, t.Job), cmp.Compare(s.Task, t.Task)) < 0
}

// ties tells tasks apart that are worth the same.
func (v *naive) ties(a, b *tickets.Task) int {
	changed := cmp.Compare(a.Changed, b.Changed)
	if v.dependent {
		changed = 0
	}
	return cmp.Or(changed, cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task))
}

func (v *naive) overrides() {
	v.begin()
	tasks, categories := v.pending(func(t *tickets.Task) float64 { return t.OverrideTickets }, func(e tickets.Entity) float64 { return e.OverrideTickets })
	for len(tasks) > 0 {
		best, seen := -1, map[[4]float64]bool{}
		for at, i := range tasks {
			if seen[categories[i]] {
				continue
			}
			seen[categories[i]] = true
			v.o[i] = v.override(&v.in.Tasks[i])
			s := &v.in.Tasks[i]
			if best < 0 {
				best = at
				continue
			}
			t := &v.in.Tasks[tasks[best]]
			if cmp.Or(cmp.Compare(v.o[tasks[best]], v.o[i]), cmp.Compare(s.Job, t.Job), cmp.Compare(s.Task, t.Task)) < 0 {
				best = at
			}
		}
		i := tasks[best]
		v.start(&v.in.Tasks[i])
		tasks = slices.Delete(tasks, best, best+1)
	}
}

func TestPendingTasksAreRankedAsDescribed(t *testing.T) {
	check(t, func(t *rapid.T) {
		in := draw(t)
		got := tickets.Calculate(in)
		n := len(in.Tasks)
		v := &naive{in: in, hier: make([]float64, n), f: make([]float64, n), o: make([]float64, n), unseen: map[int]bool{}}
		policies := in.Config.PolicyHierarchy
		for _, p := range "OFS" {
			if !slices.Contains([]rune(policies), p) {
				policies += string(p)
			}
		}
		for at, p := range policies {
			v.dependent = at < len(in.Config.PolicyHierarchy)
			switch p {
			case 'O':
				v.overrides()
			case 'F':
				if in.Config.TicketsFunctional > 0 {
					v.functional()
				}
			}
			for i := range v.hier {
				if v.dependent && (p != 'F' || !v.unseen[i]) {
					v.hier[i] += map[rune]float64{'O': v.o[i], 'F': v.f[i], 'S': got.Tasks[i].Share}[p]
				}
			}
		}
		for i, tix := range got.Tasks {
			if in.Tasks[i].Running {
				continue
			}
			if !near(tix.Functional, v.f[i]) || !near(tix.Override, v.o[i]) {
				t.Fatalf("task %d: functional %g and override %g, expected %g and %g", i, tix.Functional, tix.Override, v.f[i], v.o[i])
			}
		}
	})
}

// near compares but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }
