package tickets

import (
	"math"
	"slices"
	"strings"
)

// None is the index of a missing element.
const None int32 = -1

// Ref is a reference to an element of a list. The zero Ref refers to no element, so that a task
// without references has no shares.
type Ref int32

// RefTo returns the Ref to the element with an index, and to none for None.
func RefTo(index int32) Ref { return Ref(index + 1) }

// Index returns the index of the element, or None.
func (r Ref) Index() int32 { return int32(r) - 1 }

// In reports whether the Ref refers to one of n elements, or to none.
func (r Ref) In(n int) bool { return r >= 0 && int(r) <= n }

func (r Ref) orNone(n int) Ref {
	if r.In(n) {
		return r
	}
	return 0
}

// Entity holds the shares and tickets of a user, a project or a department for the functional and
// override policies (user(5), project(5), access_list(5): fshare and oticket).
type Entity struct {
	FunctionalShares float64
	OverrideTickets  float64
}

// Task is a task of a job: one of an array job, or the only one. Suspended tasks
// have no tickets and are left out (sge_priority(5)); so are pending tasks beyond
// PendingTasks.
type Task struct {
	Job  uint32
	Task uint32 // 0 for none
	// Changed counts the changes of jobs: submissions, alterations, changes of holds, and starts of
	// tasks. The functional and the override policy handle equal tasks in this order, unless
	// PolicyHierarchy contains them (tested).
	Changed int64
	// References to the lists of the Input, and the leaf from Tree.Leaf. User is not set for a user
	// without a user object, who has no shares (share_tree(5)). Department is the first user set of
	// that type that contains the user, otherwise the first one that contains the user's group,
	// otherwise defaultdepartment (access_list(5)).
	User, Project, Department Ref
	Leaf                      Ref
	JobShares                 float64 // qsub(1), -js
	OverrideTickets           float64 // qalter(1), -ot
	Slots                     int32   // the smallest of the first range of -pe (qsub(1)); 1 for serial jobs
	Running                   bool
}

// Config are the parameters of sched_conf(5) for the ticket policies.
type Config struct {
	TicketsShare      float64 // weight_tickets_share; 0 switches the share tree off
	TicketsFunctional float64 // weight_tickets_functional; 0 switches the policy off

	WeightUser, WeightProject, WeightDepartment, WeightJob float64

	ShareFunctionalShares       bool
	ShareOverrideTickets        bool
	MaxFunctionalJobsToSchedule int
	CompensationFactor          float64 // 0 for none
	UsageWeights                UsageWeights
	PolicyHierarchy             string // letters O, F and S; empty for NONE
}

// PendingTasks returns the number of tasks of a pending array job that have tickets of their own
// (sched_conf(5), max_pending_tasks_per_job): at most as many as can start in the free slots of
// usable queues, and one more. Further tasks have the tickets of the last of these.
func PendingTasks(maxPendingTasksPerJob, freeSlots int) int {
	return min(maxPendingTasksPerJob, freeSlots+1)
}

// Input is the input of Calculate.
type Input struct {
	Config      Config
	Users       []Entity
	Projects    []Entity
	Departments []Entity
	Tree        *Tree   // nil without a share tree
	Ledger      *Ledger // decayed until now; nil for no usage
	Tasks       []Task
}

// Tickets are the tickets of a task (qstat(1), -ext).
type Tickets struct {
	Share      float64 // stckt
	Functional float64 // ftckt
	Override   float64 // otckt
	Total      float64 // tckts
	Portion    float64 // share, of the tickets of all pending or of all running tasks
}

// Result is the result of Calculate.
type Result struct {
	Tasks []Tickets // of the tasks of the input
	// Max is the largest total of any task, which priorities are normalized by.
	// It is taken from both calculations for running tasks.
	Max float64
	// ActiveOverride is the sum of the override tickets of running tasks
	// (weight_tickets_override, an output).
	ActiveOverride float64
	// Unknown are the tasks of the input with references to missing elements. Such references count
	// as none.
	Unknown []int
}

// Calculate computes the tickets of all pending and running tasks of a scheduling
// run (sge_priority(5), ticket policy).
//
// The tickets of running tasks are calculated twice. The ones in the result ignore pending tasks:
// they determine how running tasks share the cluster, and so their run-time priorities. Pending
// tasks are ranked one after another, as if the preceding ones had been started in addition to the
// running tasks; so their tickets add up to more than the policy has.
//
// The same input gives the same result, bit by bit.
//
// Where the running tasks are the first of the input it is done soonest.
func Calculate(in *Input) *Result {
	in, unknown := in.known()
	result := in.calculate()
	result.Unknown = unknown
	return result
}

// known returns the input without references to missing elements, and the tasks that had any.
func (in *Input) known() (*Input, []int) {
	all := in
	var unknown []int
	leaves := math.MaxInt32
	if in.Tree != nil {
		leaves = len(in.Tree.nodes)
	}
	for i := range in.Tasks {
		t := &in.Tasks[i]
		if t.User.In(len(in.Users)) && t.Project.In(len(in.Projects)) && t.Department.In(len(in.Departments)) && t.Leaf.In(leaves) {
			continue
		}
		if unknown == nil { // as a rule there are none
			changed := *in
			changed.Tasks = slices.Clone(in.Tasks)
			all = &changed
		}
		unknown = append(unknown, i)
		t = &all.Tasks[i]
		t.User, t.Project = t.User.orNone(len(in.Users)), t.Project.orNone(len(in.Projects))
		t.Department, t.Leaf = t.Department.orNone(len(in.Departments)), t.Leaf.orNone(leaves)
	}
	return all, unknown
}

func (in *Input) calculate() *Result {
	active := 0
	for active < len(in.Tasks) && in.Tasks[active].Running {
		active++
	}
	if slices.ContainsFunc(in.Tasks[active:], func(t Task) bool { return t.Running }) {
		return calculateMixed(in)
	}
	return calculate(in, active)
}

// calculateMixed calculates the tickets for an input in which running and pending tasks are mixed:
// it sorts running tasks before pending ones.
func calculateMixed(in *Input) *Result {
	sorted, from := *in, make([]int, 0, len(in.Tasks))
	active := 0
	for _, running := range []bool{true, false} {
		for i := range in.Tasks {
			if in.Tasks[i].Running == running {
				from = append(from, i)
			}
		}
		if running {
			active = len(from)
		}
	}
	sorted.Tasks = make([]Task, len(from))
	for i, k := range from {
		sorted.Tasks[i] = in.Tasks[k]
	}
	result := calculate(&sorted, active)
	given := make([]Tickets, len(from))
	for i, k := range from {
		given[k] = result.Tasks[i]
	}
	result.Tasks = given
	return result
}

// calculate calculates the tickets for an input whose first active tasks, and no others, are
// running.
func calculate(in *Input, active int) *Result {
	c := &calculation{
		Input: in, Result: &Result{Tasks: make([]Tickets, len(in.Tasks))}, hier: make([]float64, len(in.Tasks)),
		active: in.Tasks[:active], pending: in.Tasks[active:],
	}
	pending := len(c.pending)
	c.count()
	f := c.functional()
	c.activeOverride()
	tree := in.Tree != nil && in.Config.TicketsShare > 0
	var s *shares
	if tree {
		s = c.newShares()
		s.target(true)
		c.activeShare(s)
	}
	c.sum(true)
	if pending > 0 {
		for _, p := range order(in.Config.PolicyHierarchy) {
			switch {
			case p.letter == 'O':
				c.pendingOverride(p.dependent)
			case p.letter == 'F' && in.Config.TicketsFunctional > 0:
				c.pendingFunctional(f, p.dependent)
			case p.letter == 'S' && tree:
				c.pendingShare(s, p.dependent)
			}
		}
		c.sum(false)
		if tree && pending < len(in.Tasks) {
			s.target(false)
			c.activeShare(s)
			c.sum(true)
		}
	}
	c.portions()
	return c.Result
}

// calculation is one of Calculate.
type calculation struct {
	*Input
	*Result
	active, pending []Task // the two parts of the tasks of the input
	// hier are the tickets of a pending task that policies before the current one
	// in the hierarchy gave.
	hier    []float64
	running counts
}

// counts holds the numbers of tasks that run, or are assumed to run, by shared object.
type counts struct{ users, projects, departments []int32 }

func (n *counts) clone() counts {
	return counts{slices.Clone(n.users), slices.Clone(n.projects), slices.Clone(n.departments)}
}

func (n *counts) add(t *Task) {
	for _, k := range []struct {
		of    []int32
		index int32
	}{{n.users, t.User.Index()}, {n.projects, t.Project.Index()}, {n.departments, t.Department.Index()}} {
		if k.index != None {
			k.of[k.index]++
		}
	}
}

func (c *calculation) count() {
	c.running = counts{make([]int32, len(c.Users)), make([]int32, len(c.Projects)), make([]int32, len(c.Departments))}
	for i := range c.active {
		c.running.add(&c.active[i])
	}
}

// sum adds up the tickets of running or of pending tasks.
func (c *calculation) sum(running bool) {
	list := c.Result.Tasks[len(c.active):]
	if running {
		list = c.Result.Tasks[:len(c.active)]
	}
	for i := range list {
		t := &list[i]
		t.Total = t.Share + t.Functional + t.Override
		c.Max = max(c.Max, t.Total)
	}
}

func (c *calculation) portions() {
	for _, list := range [][]Tickets{c.Result.Tasks[:len(c.active)], c.Result.Tasks[len(c.active):]} {
		var all float64
		for i := range list {
			all += list[i].Total
		}
		for i := range list {
			if t := &list[i]; t.Total > 0 {
				t.Portion = t.Total / all
			}
		}
	}
}

// step is a policy in the order of the hierarchy.
type step struct {
	letter    byte
	dependent bool // orders tasks by the tickets of the policies before it, too
}

// order returns the policies in the order of policy_hierarchy of sched_conf(5): the policies that
// it names depend on each other; the others follow independently.
func order(hierarchy string) []step {
	var steps []step
	for i := range len(hierarchy) {
		steps = append(steps, step{hierarchy[i], true})
	}
	for _, letter := range []byte("OFS") {
		if strings.IndexByte(hierarchy, letter) < 0 {
			steps = append(steps, step{letter, false})
		}
	}
	return steps
}
