package tickets_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler/internal/golden"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
)

// replay is a recorded case, translated.
type replay struct {
	*golden.Case
	users, projects, departments []tickets.Entity
	nodes                        []tickets.Node
	names                        []string // of users
}

func load(t *testing.T, name string) *replay {
	t.Helper()
	c, err := golden.Read(os.DirFS(filepath.Join("..", "testdata", "golden", name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	r := &replay{Case: c, users: entities(c.Users), projects: entities(c.Projects), departments: entities(c.UserSets)}
	for _, u := range c.Users {
		r.names = append(r.names, u["name"])
	}
	var add func(i int, parent int32)
	add = func(i int, parent int32) {
		n := c.Tree[i]
		node := tickets.Node{Name: n.Name, Parent: parent, Shares: n.Shares}
		switch {
		case n.Project:
			node.Kind, node.Index = tickets.ProjectNode, int32(golden.Find(c.Projects, n.Name))
		case n.Name == "default":
			node.Kind = tickets.DefaultNode
		case len(n.Children) == 0:
			node.Kind, node.Index = tickets.UserNode, int32(golden.Find(c.Users, n.Name))
		}
		r.nodes = append(r.nodes, node)
		at := int32(len(r.nodes) - 1)
		for _, child := range n.Children {
			add(child, at)
		}
	}
	if len(c.Tree) > 0 {
		add(0, tickets.None)
	}
	return r
}

func entities(objects []golden.Object) []tickets.Entity {
	var all []tickets.Entity
	for _, o := range objects {
		all = append(all, tickets.Entity{FunctionalShares: o.Number("fshare"), OverrideTickets: o.Number("oticket")})
	}
	return all
}

func (r *replay) tree(t *testing.T) *tickets.Tree {
	t.Helper()
	if len(r.nodes) == 0 {
		return nil
	}
	tree, err := tickets.NewTree(r.nodes, len(r.users), len(r.projects))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func usageWeights(t *testing.T, conf golden.Object) tickets.UsageWeights {
	t.Helper()
	var w tickets.UsageWeights
	for i, f := range strings.Split(conf["usage_weight_list"], ",") {
		name, value, _ := strings.Cut(f, "=")
		if name != []string{"cpu", "mem", "io"}[i] {
			t.Fatalf("%q is not expected", f)
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		w.Weights[i] = v
	}
	return w
}

func config(t *testing.T, conf golden.Object) tickets.Config {
	t.Helper()
	hierarchy := conf["policy_hierarchy"]
	if hierarchy == "NONE" {
		hierarchy = ""
	}
	return tickets.Config{
		TicketsShare: conf.Number("weight_tickets_share"), TicketsFunctional: conf.Number("weight_tickets_functional"),
		WeightUser: conf.Number("weight_user"), WeightProject: conf.Number("weight_project"),
		WeightDepartment: conf.Number("weight_department"), WeightJob: conf.Number("weight_job"),
		ShareFunctionalShares: conf["share_functional_shares"] == "TRUE", ShareOverrideTickets: conf["share_override_tickets"] == "TRUE",
		MaxFunctionalJobsToSchedule: int(conf.Number("max_functional_jobs_to_schedule")),
		CompensationFactor:          conf.Number("compensation_factor"), UsageWeights: usageWeights(t, conf), PolicyHierarchy: hierarchy,
	}
}

func decay(t *testing.T, conf golden.Object) *tickets.Decay {
	t.Helper()
	var exceptions []tickets.HalfLife
	if list := conf["halflife_decay_list"]; list != "none" {
		for f := range strings.SplitSeq(list, ":") {
			name, value, _ := strings.Cut(f, "=")
			minutes, err := strconv.ParseFloat(value, 64)
			kind := slices.Index([]string{"cpu", "mem", "io"}, name)
			if err != nil || kind < 0 {
				t.Fatalf("%q is not expected", f)
			}
			exceptions = append(exceptions, tickets.HalfLife{Type: tickets.UsageType(kind), Minutes: minutes})
		}
	}
	return tickets.NewDecay(conf.Number("halftime"), exceptions)
}

// ledger reads what had been used before, with stamps that count back from a time.
// The text is for people: "user alice cpu=500 (without project), in project p1
// cpu=2000", "bob cpu=1000 mem=1000 io=1000, stamp 3600 s ago".
func (r *replay) ledger(t *testing.T, at int64) *tickets.Ledger {
	t.Helper()
	l := &tickets.Ledger{Users: make([]tickets.UserUsage, len(r.users)), Projects: make([]tickets.StampedUsage, len(r.projects))}
	if len(r.nodes) == 0 {
		return l
	}
	text, err := r.File("input", "initial_usage")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		user, project := tickets.None, tickets.None
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" ,()\n", c) })
		for i, w := range words {
			before := ""
			if i > 0 {
				before = words[i-1]
			}
			name, value, isUsage := strings.Cut(w, "=")
			kind := slices.Index([]string{"cpu", "mem", "io"}, name)
			switch {
			case isUsage && kind >= 0 && (user != tickets.None || project != tickets.None):
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				// What is booked is not stamped: that is done below.
				var used, nothing tickets.Amounts
				used[kind] = v
				if user != tickets.None && project != tickets.None {
					u := l.Projects[project].Usage // which has a line of its own
					l.Book(user, project, &used, &nothing)
					l.Projects[project].Usage = u
				} else {
					l.Book(user, project, &used, &nothing)
				}
			case before == "project" && golden.Find(r.Projects, w) >= 0:
				if project = int32(golden.Find(r.Projects, w)); i < 2 || words[i-2] != "in" {
					user = tickets.None
				}
			case before == "stamp":
				if ago, err := strconv.ParseInt(w, 10, 64); err == nil && ago > 0 {
					l.Users[user].Stamp = at - ago
				}
			case golden.Find(r.Users, w) >= 0:
				user, project = int32(golden.Find(r.Users, w)), tickets.None
			}
		}
	}
	return l
}

// tasks translates the lines of qstat. Of an array job that waits, one task has
// tickets: nothing is free when the states of the cases are printed.
func (r *replay) input(t *testing.T, s *golden.Step) *tickets.Input {
	t.Helper()
	in := &tickets.Input{
		Config: config(t, s.Conf), Users: r.users, Projects: r.projects, Departments: r.departments, Tree: r.tree(t),
	}
	for _, row := range s.Rows {
		j := row.Job
		task := tickets.Task{
			Job: j.ID, Changed: j.Submitted, User: tickets.RefTo(int32(golden.Find(r.Users, j.User))), Project: tickets.RefTo(int32(golden.Find(r.Projects, j.Project))),
			Department: tickets.RefTo(int32(slices.IndexFunc(r.UserSets, func(o golden.Object) bool {
				return strings.Contains(o["type"], "DEPT") && slices.Contains(strings.Split(o["entries"], ","), j.User)
			}))),
			JobShares: j.Shares, OverrideTickets: j.OverrideTickets, Slots: 1, Running: row.Running,
		}
		if len(j.Slots) > 0 {
			task.Slots = int32(j.Slots[0][0])
		}
		if j.Tasks > 0 {
			first := strings.FieldsFunc(row.Task, func(c rune) bool { return c < '0' || c > '9' })
			if n := tickets.PendingTasks(int(s.Conf.Number("max_pending_tasks_per_job")), 0); n != 1 || len(first) == 0 {
				t.Fatalf("%d tasks of %q have tickets", n, row.Task)
			}
			id, err := strconv.ParseUint(first[0], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			task.Task = uint32(id)
		}
		if in.Tree != nil {
			task.Leaf = in.Tree.Leaf(task.User.Index(), task.Project.Index())
		}
		in.Tasks = append(in.Tasks, task)
	}
	return in
}

// differences compares what qstat printed of a step with what is computed from a
// ledger. last are the tickets at the step before.
func (r *replay) differences(t *testing.T, s *golden.Step, l *tickets.Ledger, last map[uint32]tickets.Tickets) (all []string, compared int, result map[uint32]tickets.Tickets) {
	t.Helper()
	in := r.input(t, s)
	in.Ledger = l
	got := tickets.Calculate(in)
	result = map[uint32]tickets.Tickets{}
	var jobs []priority.Job
	for i, row := range s.Rows {
		result[row.Job.ID] = got.Tasks[i]
		jobs = append(jobs, priority.Job{
			ID: row.Job.ID, Task: in.Tasks[i].Task, Submitted: row.Job.Submitted,
			Priority: row.Job.Priority, Resources: r.Resources(row.Job), Tickets: got.Tasks[i].Total,
		})
	}
	priorities, _ := s.Weights().Calculate(nil, jobs, got.Max, math.MaxInt32)
	for i, row := range s.Rows {
		check := func(o golden.Object, name string, v, tolerance float64) {
			compared++
			if math.Abs(o.Number(name)-v) > tolerance {
				all = append(all, fmt.Sprintf("%s %s: %s is %g, printed was %s", row.Job.Name, row.Task, name, v, o[name]))
			}
		}
		tix := got.Tasks[i]
		// Of a running job under the control of its parallel environment qstat
		// prints the tickets of its queue instances, which it has had since it was
		// dispatched; its part and its priority are those of the last run.
		shown := tix
		if row.Running && row.Job.PE != "" {
			if r.PEs[golden.Find(r.PEs, row.Job.PE)]["control_slaves"] != "TRUE" {
				t.Fatal("a parallel environment without control is not expected")
			}
			shown = last[row.Job.ID]
		}
		// Printed numbers are cut off.
		check(row.Ext, "tckts", math.Trunc(shown.Total), 1)
		check(row.Ext, "otckt", math.Trunc(shown.Override), 1)
		check(row.Ext, "ftckt", math.Trunc(shown.Functional), 1)
		check(row.Ext, "stckt", math.Trunc(shown.Share), 1)
		check(row.Ext, "ovrts", row.Job.OverrideTickets, 0)
		check(row.Ext, "share", tix.Portion, 0.005001)
		p := priorities[i]
		const digits = 0.00000501
		for _, o := range []golden.Object{row.Ext, row.Pri, row.Urg} {
			check(o, "prior", p.Priority, digits)
		}
		for _, o := range []golden.Object{row.Pri, row.Urg} {
			check(o, "nurg", p.NormalizedUrgency, digits)
		}
		for _, o := range []golden.Object{row.Ext, row.Pri} {
			check(o, "ntckts", p.NormalizedTickets, digits)
		}
		check(row.Pri, "npprior", p.NormalizedPriority, digits)
		check(row.Urg, "rrcontr", p.ResourceContribution, 0.5)
		check(row.Urg, "urg", p.Urgency, 0.5)
	}
	next := 0
	order := golden.Order(jobs, priorities)
	for i, row := range s.Rows { // qstat prints pending jobs in the order of dispatch
		if row.Running {
			continue
		}
		for s.Rows[order[next]].Running {
			next++
		}
		if order[next] != i {
			all = append(all, fmt.Sprintf("%s is dispatched where qstat printed %s", s.Rows[order[next]].Job.Name, row.Job.Name))
		}
		next++
	}
	return all, compared, result
}

func TestTicketsOfTheRealScheduler(t *testing.T) {
	for _, name := range []string{
		"09-functional", "10-functional-notshared", "11-sharetree-users", "12-sharetree-projects",
		"13-override", "23-arrays-tickets", "24-priority-mix",
	} {
		t.Run(name, func(t *testing.T) {
			r := load(t, name)
			var last map[uint32]tickets.Tickets
			total := 0
			for _, s := range r.Steps {
				bad, n, result := r.differences(t, s, r.ledger(t, 0), last)
				for _, d := range bad {
					t.Errorf("%s: %s", s.Name, d)
				}
				last = result
				total += n
			}
			t.Attr("numbers", strconv.Itoa(total))
		})
	}
}

// mismatches compares what sge_share_mon printed with the tree.
func (r *replay) mismatches(t *testing.T, printed map[string]golden.Object, rows []tickets.Row, usageTimes bool) (all []string, compared int) {
	t.Helper()
	if len(rows) != len(printed) {
		all = append(all, fmt.Sprintf("%d nodes, printed were %d", len(rows), len(printed)))
	}
	for _, row := range rows {
		o := printed[row.Path]
		if o == nil {
			all = append(all, fmt.Sprintf("%q was not printed", row.Path))
			continue
		}
		var user, project string
		if row.User != tickets.None {
			user = r.names[row.User]
		}
		if row.Project != tickets.None {
			project = r.Projects[row.Project]["name"]
		}
		columns := map[string]string{"user_name": user, "project_name": project, "shares": strconv.Itoa(int(row.Shares))}
		for name, v := range map[string]float64{
			"level%": row.Level, "total%": row.Total, "actual_share": row.ActualShare, "usage": row.Usage,
			"cpu": row.Own.Decayed[tickets.CPU], "mem": row.Own.Decayed[tickets.Mem], "io": row.Own.Decayed[tickets.IO],
			"ltcpu": row.Own.LongTerm[tickets.CPU], "ltmem": row.Own.LongTerm[tickets.Mem], "ltio": row.Own.LongTerm[tickets.IO],
		} {
			columns[name] = fmt.Sprintf("%.6f", v)
		}
		if usageTimes {
			columns["usage_time"] = strconv.FormatInt(row.UsageTime, 10)
		}
		for name, text := range columns {
			compared++
			// The original decays in several steps, which rounds otherwise.
			v, err := strconv.ParseFloat(text, 64)
			if text != o[name] && (err != nil || math.Abs(v-o.Number(name)) > 0.0000011) {
				all = append(all, fmt.Sprintf("%s: %s is %s, printed was %s", row.Path, name, text, o[name]))
			}
		}
	}
	return all, compared
}

func TestSharesThatTheRealSchedulerPrints(t *testing.T) {
	for _, name := range []string{"11-sharetree-users", "12-sharetree-projects"} {
		r := load(t, name)
		total := 0
		for _, s := range r.Steps {
			w := usageWeights(t, s.Conf)
			for _, printed := range s.Share {
				bad, n := r.mismatches(t, printed, r.tree(t).Monitor(&tickets.Monitoring{Ledger: r.ledger(t, 0), Weights: w, Names: r.names}), false)
				for _, d := range bad {
					t.Errorf("%s, %s: %s", name, s.Name, d)
				}
				total += n
			}
		}
		if total == 0 {
			t.Errorf("%s: nothing compared", name)
		}
		t.Logf("%s: %d numbers compared", name, total)
	}
}

// TestUsageDecaysAsInTheRealScheduler checks the decay of the usage. The stamps count from a recorded
// moment, and the first run came some seconds later: usage without a stamp began to decay then.
func TestUsageDecaysAsInTheRealScheduler(t *testing.T) {
	r := load(t, "22-usage-decay")
	s := r.Steps[0]
	times, err := r.File("output", s.Name, "times.txt")
	if err != nil {
		t.Fatal(err)
	}
	var base int64
	if _, err := fmt.Sscanf(times, "stamp base T=%d", &base); err != nil {
		t.Fatal(err)
	}
	d, w := decay(t, s.Conf), usageWeights(t, s.Conf)
	at := func(first, now int64) *tickets.Ledger {
		l := r.ledger(t, base)
		l.Decay(d, first)
		l.Decay(d, now)
		return l
	}
	var best []string
	first := int64(0)
	for try := base; try < base+10; try++ {
		var bad []string
		total := 0
		for _, printed := range s.Share {
			now := int64(printed["/alice"].Number("usage_time"))
			more, n := r.mismatches(t, printed, r.tree(t).Monitor(&tickets.Monitoring{Ledger: at(try, now), Weights: w, Names: r.names}), true)
			bad, total = append(bad, more...), total+n
		}
		if len(bad) == 0 {
			first = try
			t.Logf("%d numbers compared, the first run was %d s after the start", total, try-base)
		}
		if best == nil || len(bad) < len(best) {
			best = bad
		}
	}
	if first == 0 || len(s.Share) != 3 {
		t.Fatalf("%d times: %s", len(s.Share), strings.Join(best, "\n"))
	}

	// The tickets were printed at other moments, before.
	best = nil
	for now := first + 1; now < base+40; now++ {
		bad, n, _ := r.differences(t, s, at(first, now), nil)
		if len(bad) == 0 {
			t.Logf("%d numbers compared, %d s after the start", n, now-base)
			best = nil
			break
		}
		if best == nil || len(bad) < len(best) {
			best = bad
		}
	}
	for _, d := range best {
		t.Error(d)
	}

	// Three more runs, of which the tickets only were kept: those of bob, alice and
	// carol.
	kept, err := r.File("output", s.Name, "tickets.txt")
	if err != nil {
		t.Fatal(err)
	}
	runs := regexp.MustCompile(`xbob .*?(\d{6}) 0\.\d+  xalice (\d{6}) 0\.\d+  xcarol .*?(\d{6}) 0\.\d+`).FindAllStringSubmatch(kept, -1)
	if len(runs) != 3 {
		t.Fatalf("%d runs in %q", len(runs), kept)
	}
	for _, run := range runs {
		fits := false
		for now := first + 1; now < base+40 && !fits; now++ {
			in := r.input(t, s)
			in.Ledger = at(first, now)
			fits = true
			for i, tix := range tickets.Calculate(in).Tasks {
				printed, err := strconv.ParseFloat(run[slices.Index([]string{"", "xbob", "xalice", "xcarol"}, s.Rows[i].Job.Name)], 64)
				fits = fits && err == nil && math.Abs(math.Trunc(tix.Total)-printed) <= 1
			}
		}
		if !fits {
			t.Errorf("no run has the tickets %v", run[1:])
		}
	}
}
