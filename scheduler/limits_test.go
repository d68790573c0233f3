package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// startsText returns the tasks that a run starts, as "job.task" in one line.
func startsText(d *scheduler.Decisions) string {
	var parts []string
	for i := range d.Starts {
		parts = append(parts, fmt.Sprintf("%d.%d", d.Starts[i].Job.ID, d.Starts[i].Task))
	}
	return strings.Join(parts, " ")
}

// TestTaskLimits checks how many tasks of an array job start with -tc and max_aj_instances.
func TestTaskLimits(t *testing.T) {
	const notAll = `not all array tasks may be started due to 'max_aj_instances'`
	for _, c := range []struct {
		name          string
		tasks         string
		limit, active int // of the job
		all           int // max_aj_instances
		want          string
		reasons       []string
	}{
		{name: "no limit", tasks: "1-9:2", all: 2000, want: "1.1 1.3 1.5 1.7 1.9"},
		{name: "-tc", tasks: "1-9:2", limit: 2, all: 2000, want: "1.1 1.3", reasons: []string{notAll}},
		{name: "-tc with active tasks", tasks: "5-9:2", limit: 3, active: 2, all: 2000, want: "1.5", reasons: []string{notAll}},
		{name: "-tc is reached", tasks: "5-9:2", limit: 2, active: 2, all: 2000, reasons: []string{notAll}},
		{name: "more active tasks than -tc", tasks: "5-9:2", limit: 1, active: 3, all: 2000, reasons: []string{notAll}},
		{name: "-tc that does not matter", tasks: "1-3", limit: 3, all: 2000, want: "1.1 1.2 1.3"},
		{name: "max_aj_instances", tasks: "1-4", all: 3, want: "1.1 1.2 1.3", reasons: []string{notAll}},
		{name: "max_aj_instances below -tc", tasks: "1-4", limit: 3, all: 2, want: "1.1 1.2", reasons: []string{notAll}},
		{name: "-tc below max_aj_instances", tasks: "1-4", limit: 1, all: 2, want: "1.1", reasons: []string{notAll}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: merged(queueFile("slots 10\n"), map[string]string{"conf/global": fmt.Sprintf("max_aj_instances %d\n", c.all)})}.make(t)
			j := serialJob(t, s.Model(), 1, &scheduler.Requests{})
			j.Array, j.Tasks, j.TaskLimit, j.Active = true, tasksOf(t, c.tasks), c.limit, c.active
			submit(t, s, j)
			d := s.Run(1000)
			if got := startsText(d); got != c.want {
				t.Errorf("starts %s, want %s", got, c.want)
			}
			if diff := cmp.Diff(c.reasons, texts(d.Reasons(j))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUserLimit checks maxujobs: running tasks, suspended tasks and the tasks that start in the run
// count.
func TestUserLimit(t *testing.T) {
	s := scene{files: merged(queueFile("slots 10\n"), map[string]string{"sched_conf": "maxujobs 2\n"}), before: []scheduler.Requests{{}}}.make(t)
	s.Running()[0].Suspended = scheduler.ByUser
	m := s.Model()
	bob := serialJob(t, m, 1, &scheduler.Requests{User: "bob"})
	bob.Array, bob.Tasks = true, tasksOf(t, "1-3")
	first, second := serialJob(t, m, 2, &scheduler.Requests{}), serialJob(t, m, 3, &scheduler.Requests{})
	for _, j := range []*scheduler.Job{bob, first, second} {
		submit(t, s, j)
	}
	d := s.Run(1000)
	if got := startsText(d); got != "1.1 1.2 2.1" {
		t.Errorf("starts %s", got)
	}
	if got := texts(d.Reasons(second)); !slices.Equal(got, []string{"job dropped because of user limitations"}) {
		t.Errorf("%q", got)
	}
}

// TestUncleanHost runs a job that has to wait until its previous run on a host is cleaned up.
func TestUncleanHost(t *testing.T) {
	s := scene{files: queueFile("slots 1,[n2=0]\n")}.make(t)
	m := s.Model()
	again, other := serialJob(t, m, 1, &scheduler.Requests{}), serialJob(t, m, 2, &scheduler.Requests{})
	n1, _ := m.Host("n1")
	again.Excluded = []scheduler.HostID{n1}
	submit(t, s, again)
	submit(t, s, other)
	d := s.Run(1000)
	if got := startsText(d); got != "2.1" {
		t.Errorf("starts %s", got)
	}
	if got := texts(d.Reasons(again)); !slices.Equal(got, []string{`cannot run on host "n1" until clean up of a previous run has finished`}) {
		t.Errorf("%q", got)
	}
}

// TestSuspendThresholds checks which tasks are suspended and resumed.
func TestSuspendThresholds(t *testing.T) {
	type task struct {
		id, started int64
		suspended   scheduler.Suspension
	}
	four := []task{{1, 100, 0}, {2, 300, 0}, {3, 300, 0}, {4, 200, 0}}
	suspended := []task{{1, 100, scheduler.ByThreshold}, {2, 300, scheduler.ByThreshold}, {3, 200, scheduler.ByUser}, {4, 50, 0}}
	for _, c := range []struct {
		name   string
		lines  string
		users  string // the load value
		tasks  []task
		state  scheduler.Status
		check  int64 // when a threshold led to something, 0 for never
		now    int64
		want   string
		resume bool
	}{
		{name: "no alarm", users: "1", tasks: four, now: 1000},
		{name: "the last one first", users: "5", tasks: four, now: 1000, want: "2"},
		{name: "three", lines: "nsuspend 3\n", users: "5", tasks: four, now: 1000, want: "2 3 4"},
		{name: "none", lines: "nsuspend 0\n", users: "5", tasks: four, now: 1000},
		{name: "no interval", lines: "suspend_interval 0\n", users: "5", tasks: four, now: 1000},
		{name: "interval is not over", users: "5", tasks: four, check: 900, now: 1000},
		{name: "interval is over", lines: "suspend_interval 100\n", users: "5", tasks: four, check: 900, now: 1000, want: "2"},
		{name: "what is suspended already", users: "5", tasks: suspended, now: 1000, want: "4"},
		{name: "the first one resumes first", users: "1", tasks: suspended, now: 1000, want: "1", resume: true},
		{name: "two resume", lines: "nsuspend 5\n", users: "1", tasks: suspended, now: 1000, want: "1 2", resume: true},
		{name: "the queue is suspended", users: "5", tasks: four, state: scheduler.SuspendedByUser, now: 1000},
		{name: "the queue is disabled", users: "5", tasks: four, state: scheduler.DisabledByUser, now: 1000, want: "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: merged(queueFile("slots 10\nsuspend_thresholds hot=5\n" + c.lines)), load: map[string]map[string]string{"n1": {"hot": "1"}, "n2": {"hot": "1"}}}.make(t)
			m := s.Model()
			id, _ := m.Instance("a.q", "n1")
			for _, x := range c.tasks {
				j := serialJob(t, m, uint32(x.id), &scheduler.Requests{})
				if err := s.Start(&scheduler.Running{
					Job: j, Task: 1, Started: x.started, PE: scheduler.None, Suspended: x.suspended,
					Grants: []scheduler.Grant{{Instance: id, Slots: 1}},
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.SetLoad("n1", map[string]string{"hot": c.users}); err != nil {
				t.Fatal(err)
			}
			s.SetStatus(id, c.state)
			if c.check > 0 {
				s.ThresholdChecked(id, c.check)
			}
			var got []string
			for _, a := range s.Run(c.now).Suspensions {
				if a.Instance != id || a.Resume != c.resume {
					t.Errorf("in %s, resume %t", m.InstanceName(a.Instance), a.Resume)
				}
				got = append(got, fmt.Sprint(a.Task.Job.ID))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}

// TestSuspendThresholdsOfParallelJobs sets up a task in two instances that are both in alarm: it is
// suspended once, and resumed by the instance of its master task.
func TestSuspendThresholdsOfParallelJobs(t *testing.T) {
	s := scene{
		files: queueFile("slots 2\nsuspend_thresholds hot=5\n"), load: map[string]map[string]string{"n1": {"hot": "1"}, "n2": {"hot": "1"}},
		before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "3")}},
	}.make(t)
	m := s.Model()
	for _, h := range []string{"n1", "n2"} {
		if err := s.SetLoad(h, map[string]string{"hot": "5"}); err != nil {
			t.Fatal(err)
		}
	}
	d := s.Run(1000)
	if len(d.Suspensions) != 1 {
		t.Fatalf("%d suspensions, want 1", len(d.Suspensions))
	}
	s.Running()[0].Suspended |= scheduler.ByThreshold
	for _, h := range []string{"n1", "n2"} {
		if err := s.SetLoad(h, map[string]string{"hot": "1"}); err != nil {
			t.Fatal(err)
		}
	}
	d = s.Run(2000)
	if len(d.Suspensions) != 1 || !d.Suspensions[0].Resume || d.Suspensions[0].Instance != s.Running()[0].Grants[0].Instance {
		t.Errorf("%+v in %s", d.Suspensions, m.InstanceName(s.Running()[0].Grants[0].Instance))
	}
}

// TestSuspendThresholdTakesFirstStartedTask sets up several tasks that started in the same second. A
// suspend threshold suspends the one that was started first, whatever its number is.
func TestSuspendThresholdTakesFirstStartedTask(t *testing.T) {
	s := scene{
		files: queueFile("slots 4\nload_thresholds NONE\nsuspend_thresholds np_load_avg=1\nnsuspend 2\n"),
		load:  map[string]map[string]string{"n1": {"np_load_avg": "2"}, "n2": {"np_load_avg": "0"}},
	}.make(t)
	for _, x := range []struct {
		job     uint32
		started int64
	}{{4, 900}, {3, 901}, {1, 901}, {2, 901}} {
		j := serialJob(t, s.Model(), x.job, &scheduler.Requests{})
		err := s.Start(&scheduler.Running{Job: j, Task: 1, Started: x.started, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: 0, Slots: 1}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []uint32
	for _, a := range s.Run(1000).Suspensions {
		got = append(got, a.Task.Job.ID)
	}
	if !slices.Equal(got, []uint32{3, 1}) {
		t.Errorf("jobs %d are suspended", got)
	}
}

// TestSuspendThresholdsAndSubordination checks how suspend thresholds treat tasks in instances that
// superordinate ones have suspended. If the instance is that of the master task, the task counts as
// suspended, without load. If it is that of a slave task, the task counts as running.
func TestSuspendThresholdsAndSubordination(t *testing.T) {
	for _, c := range []struct {
		name   string
		grants []scheduler.Grant // instances 0 and 1 are those of a.q on n1 and n2
		want   int
	}{
		{name: "master", grants: []scheduler.Grant{{Instance: 1, Slots: 3}, {Instance: 0, Slots: 3}}},
		{name: "slave", grants: []scheduler.Grant{{Instance: 0, Slots: 3}, {Instance: 1, Slots: 3}}, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files: merged(queueFile("slots 4\nload_thresholds NONE\nsuspend_thresholds np_load_avg=1\n"),
					map[string]string{"sched_conf": "job_load_adjustments np_load_avg=0.5\nload_adjustment_decay_time 1:0:0\n"}),
				load: map[string]map[string]string{"n1": {"np_load_avg": "0"}, "n2": {"np_load_avg": "0"}},
			}.make(t)
			j := serialJob(t, s.Model(), 1, &scheduler.Requests{})
			r := &scheduler.Running{Job: j, Task: 1, Started: 1000, PE: scheduler.None, Grants: c.grants, Suspended: scheduler.BySubordinate}
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
			s.SetStatus(1, scheduler.Subordinated)
			if got := len(s.Run(1000).Suspensions); got != c.want {
				t.Errorf("%d suspensions, want %d", got, c.want)
			}
		})
	}
}

// TestSlotRangeAdjustsLoadOnce starts a parallel job that puts its host into load alarm. The load
// adjustments are the same however many numbers of slots were tried for it.
func TestSlotRangeAdjustsLoadOnce(t *testing.T) {
	for _, slots := range []string{"2", "1-2", "2-9"} {
		s := scene{
			files: map[string]string{
				"queues/a.q": "qname a.q\nhostlist n1\nslots 2\nseq_no 1\nload_thresholds NONE\npe_list fill\n",
				"queues/b.q": "qname b.q\nhostlist n1\nslots 2\nseq_no 2\nload_thresholds np_load_avg=1\n",
				"sched_conf": "weight_urgency 0\njob_load_adjustments np_load_avg=0.5\n",
			},
			load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}},
		}.make(t)
		submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots)}))
		submit(t, s, serialJob(t, s.Model(), 2, &scheduler.Requests{}))
		if got := decided(s.Run(1000)); got != "1" {
			t.Errorf("-pe fill %s: jobs %s start, want 1", slots, got)
		}
	}
}

// TestQuotaForEachQueueRulesOutHosts sets up a rule that limits each queue on some hosts. Grid Engine does not place a
// serial job in another queue of a host on which the rule refuses it one queue, even if the job did not request that
// queue. The expected result was recorded from Grid Engine 8.1.9.
func TestQuotaForEachQueueRulesOutHosts(t *testing.T) {
	s := scene{files: map[string]string{
		"hosts/n1":   "hostname n1\n",
		"hosts/n2":   "hostname n2\n",
		"hosts/n3":   "hostname n3\n",
		"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\n",
		"queues/b.q": "qname b.q\nhostlist n1 n2 n3\nslots 1\nseq_no 1\nload_thresholds NONE\n",
		"rqs":        "{\n name s\n enabled TRUE\n limit queues {*} hosts {n1,n2} to slots=1\n}\n",
		"sched_conf": "job_load_adjustments NONE\nqueue_sort_method seqno\n",
	}}.make(t)
	for id := range uint32(5) {
		r := &scheduler.Requests{}
		if id == 3 {
			r.Queues = "b.q"
		}
		submit(t, s, serialJob(t, s.Model(), id+1, r))
	}
	var got []string
	for _, d := range s.Run(1000).Starts {
		got = append(got, fmt.Sprintf("%d %s", d.Job.ID, s.Model().InstanceName(d.Grants[0].Instance)))
	}
	if text, want := strings.Join(got, ", "), "1 a.q@n1, 2 a.q@n2, 3 b.q@n3"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
