package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// workload is a generated cluster and its jobs.
type workload struct {
	hosts, jobs, tasks, categories, users int
	policies                              bool // quotas per user, share tree and urgency
	bindings                              bool // each job gets a core of its own
}

func (w workload) String() string {
	text := fmt.Sprintf("hosts=%d/jobs=%d/categories=%d", w.hosts, w.jobs*max(w.tasks, 1), w.categories)
	if w.bindings {
		text += "/bindings"
	}
	if w.policies {
		text += "/policies"
	}
	return text
}

// cluster returns a cluster of hosts with 16 slots each in one queue.
func (w workload) cluster(tb testing.TB) *qconf.Cluster {
	tb.Helper()
	var names []string
	files := fstest.MapFS{}
	file := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	for h := range w.hosts {
		name := fmt.Sprintf("n%05d", h)
		names = append(names, name)
		file("hosts/"+name, "hostname "+name+"\ncomplex_values mem=64G\n")
	}
	file("hostgroups/@allhosts", "group_name @allhosts\nhostlist "+strings.Join(names, " ")+"\n")
	file("queues/all.q", "qname all.q\nhostlist @allhosts\nslots 16\nload_thresholds NONE\n")
	file("complexes", qconf.DefaultComplexes().Format()+"mem mem MEMORY <= YES YES 0 0\n")
	if w.policies {
		file("rqs", "{\n name per_user\n enabled TRUE\n limit users {*} to slots=1000000\n}\n")
		file("sched_conf", "weight_tickets_share 1000000\nweight_ticket 0.5\nweight_urgency 0.1\nschedd_job_info true\n")
	} else {
		file("sched_conf", fmt.Sprintf("schedd_job_info true\nparams BINDING_AWARE=%t\n", w.bindings))
	}
	c, err := qconf.Load(files, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (w workload) state(tb testing.TB) *scheduler.State {
	tb.Helper()
	m, problems := scheduler.NewModel(w.cluster(tb), scheduler.Options{})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	s := scheduler.NewState(m)
	for h := range w.hosts {
		load := fmt.Sprintf("%.4f", float64((h*7919)%w.hosts)/float64(w.hosts))
		if err := s.SetLoad(fmt.Sprintf("n%05d", h), map[string]string{"np_load_avg": load, "num_proc": "16", "m_topology": "SCCCCCCCCSCCCCCCCC"}); err != nil {
			tb.Fatal(err)
		}
	}
	if w.policies {
		w.entitle(tb, s)
	}
	tasks := max(w.tasks, 1)
	list, err := rangelist.Of(1, tasks, 1)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range w.jobs {
		user := 0
		if w.users > 0 {
			user = i % w.users
		}
		r := &scheduler.Requests{
			User: fmt.Sprintf("u%d", user), Group: "users",
			Hard: []qconf.Setting{{Name: "mem", Value: fmt.Sprint(1000000 + i%w.categories)}},
		}
		if w.bindings {
			r.Binding = linear(1)
		}
		c, err := m.Category(r)
		if err != nil {
			tb.Fatal(err)
		}
		j := &scheduler.Job{
			ID: uint32(i + 1), Category: c, Owner: r.User, Submitted: int64(1000 + i/100), Tasks: list, Array: tasks > 1,
			User: tickets.RefTo(int32(user)),
		}
		if w.policies {
			j.Leaf = s.Entitlements.Tree.Leaf(int32(user), tickets.None)
		}
		submit(tb, s, j)
	}
	return s
}

func (w workload) entitle(tb testing.TB, s *scheduler.State) {
	nodes := []tickets.Node{{Name: "Root", Kind: tickets.Group, Parent: tickets.None, Shares: 1}}
	s.Entitlements.Ledger = &tickets.Ledger{}
	for u := range w.users {
		nodes = append(nodes, tickets.Node{Name: fmt.Sprintf("u%d", u), Kind: tickets.UserNode, Index: int32(u), Shares: float64(1 + u%10)})
		s.Entitlements.Users = append(s.Entitlements.Users, tickets.Entity{})
		var usage tickets.UserUsage
		usage.Decayed[tickets.CPU] = float64(1000 * (u * 37 % 100))
		s.Entitlements.Ledger.Users = append(s.Entitlements.Ledger.Users, usage)
	}
	tree, err := tickets.NewTree(nodes, w.users, 0)
	if err != nil {
		tb.Fatal(err)
	}
	s.Entitlements.Tree = tree
}

func BenchmarkRun(b *testing.B) {
	for _, w := range []workload{
		{hosts: 1000, jobs: 100, tasks: 100, categories: 10},
		{hosts: 1000, jobs: 10000, categories: 100, users: 100, policies: true},
		{hosts: 5000, jobs: 50000, categories: 100},
		{hosts: 5000, jobs: 50000, categories: 100, bindings: true},
		{hosts: 10000, jobs: 160000, categories: 500, users: 100, policies: true},
	} {
		b.Run(w.String(), func(b *testing.B) {
			s := w.state(b)
			b.ReportAllocs()
			for b.Loop() {
				d := s.Run(2000)
				if want := min(w.jobs*max(w.tasks, 1), w.hosts*16); len(d.Starts) != want {
					b.Fatalf("%d tasks start, want %d", len(d.Starts), want)
				}
			}
		})
	}
}

// BenchmarkRunHosts runs the same jobs on more and more hosts. The cost of a run should grow with
// the jobs that start, and little with the hosts.
func BenchmarkRunHosts(b *testing.B) {
	for _, hosts := range []int{1000, 2000, 5000, 10000, 20000} {
		w := workload{hosts: hosts, jobs: 10000, categories: 100}
		b.Run(w.String(), func(b *testing.B) {
			s := w.state(b)
			b.ReportAllocs()
			for b.Loop() {
				if d := s.Run(2000); len(d.Starts) != w.jobs {
					b.Fatalf("%d tasks start, want %d", len(d.Starts), w.jobs)
				}
			}
		})
	}
}

// BenchmarkRunCategories runs the same number of jobs of more and more categories on the same
// cluster.
func BenchmarkRunCategories(b *testing.B) {
	for _, categories := range []int{1, 10, 100, 1000, 10000} {
		w := workload{hosts: 1000, jobs: 10000, categories: categories}
		b.Run(w.String(), func(b *testing.B) {
			s := w.state(b)
			b.ReportAllocs()
			for b.Loop() {
				if d := s.Run(2000); len(d.Starts) != w.jobs {
					b.Fatalf("%d tasks start, want %d", len(d.Starts), w.jobs)
				}
			}
		})
	}
}

// BenchmarkRunFull measures a run on a full cluster with many pending jobs, in which a few tasks
// have finished since the previous run.
func BenchmarkRunFull(b *testing.B) {
	for _, w := range []workload{
		{hosts: 10000, jobs: 10000, categories: 500},
		{hosts: 10000, jobs: 100000, categories: 500},
		{hosts: 10000, jobs: 1000000, categories: 500},
		{hosts: 1000, jobs: 10000, categories: 100, users: 100, policies: true},
		{hosts: 1000, jobs: 100000, categories: 100, users: 100, policies: true},
	} {
		b.Run(w.String(), func(b *testing.B) {
			const ends = 100
			w.jobs += w.hosts * 16
			s := w.state(b)
			start(b, s, s.Run(2000))
			now := int64(10000)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				now += 15
				for i := range ends {
					r := s.Running()[(i*7919)%len(s.Running())]
					if err := s.End(r); err != nil {
						b.Fatal(err)
					}
					// It waits again, so that there is always the same number.
					r.Job.Submitted, r.Job.ID = now, r.Job.ID+10000000
					submit(b, s, r.Job)
				}
				b.StartTimer()
				d := s.Run(now)
				b.StopTimer()
				if len(d.Starts) != ends {
					b.Fatalf("%d tasks start, want %d", len(d.Starts), ends)
				}
				start(b, s, d)
				b.StartTimer()
			}
		})
	}
}

// start does what was decided.
func start(tb testing.TB, s *scheduler.State, d *scheduler.Decisions) {
	tb.Helper()
	for _, x := range d.Starts {
		s.Dequeue(x.Job)
		if err := s.Start(&scheduler.Running{Job: x.Job, Task: x.Task, Started: 2000, PE: x.PE, Grants: x.Grants}); err != nil {
			tb.Fatal(err)
		}
	}
}
