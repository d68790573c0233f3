package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// TestTasksReserveInOrderOfTickets submits two array jobs that reserve: the tasks are tried in the
// order of their own tickets, and a job shows the tickets of its next task.
func TestTasksReserveInOrderOfTickets(t *testing.T) {
	for most, want := range map[int]struct {
		order      string
		two, three float64
	}{
		1: {order: "[2.1]", two: 5000, three: 2500},
		2: {order: "[2.1 2.2]", two: 2500, three: 2500},
		3: {order: "[2.1 2.2 3.1]", two: 5000. / 3, three: 2500},
		6: {order: "[2.1 2.2 3.1 2.3 3.2 2.4]", two: 1250, three: 1250},
	} {
		s := scene{
			files: merged(queueFile("slots 6,[n2=0]\n"), map[string]string{
				"pes/fill": "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
				"sched_conf": fmt.Sprintf("max_reservation %d\ndefault_duration 100\nweight_tickets_functional 10000\npolicy_hierarchy F\n"+
					"weight_user 1\nweight_project 0\nweight_department 0\nweight_job 0\nweight_ticket 1\nweight_urgency 0\njob_load_adjustments NONE\n", most),
			}),
			before: []scheduler.Requests{{}},
		}.make(t)
		s.Entitlements.Users = []tickets.Entity{{FunctionalShares: 100}, {FunctionalShares: 100}}
		s.Running()[0].Job.User = tickets.RefTo(1)
		var jobs []*scheduler.Job
		for i := range uint32(2) {
			j := serialJob(t, s.Model(), i+2, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "6")})
			j.Array, j.Reserve, j.Tasks, j.User = true, true, tasksOf(t, []string{"1-5", "1-3"}[i]), tickets.RefTo(int32(i))
			submit(t, s, j)
			jobs = append(jobs, j)
		}
		d := s.Run(1000)
		var got []string
		for _, r := range d.Reservations {
			got = append(got, fmt.Sprintf("%d.%d", r.Job.ID, r.Task))
		}
		if text := fmt.Sprint(got); text != want.order {
			t.Errorf("of %d reservations are made: %s, want %s", most, text, want.order)
		}
		for i, n := range []float64{want.two, want.three} {
			if _, tick := d.Of(jobs[i]); tick.Total < n-0.001 || tick.Total > n+0.001 {
				t.Errorf("with %d reservations job %d shows %v, want %v", most, i+2, tick.Total, n)
			}
		}
	}
}

// TestReasonsOfReservingJobs checks the reasons for parallel jobs in a run that plans ahead. For a
// job that may reserve, the run also checks full instances, and then the last time at which
// anything changes. There is no reason about resources that are taken only for a time.
func TestReasonsOfReservingJobs(t *testing.T) {
	s := scene{
		files: merged(queueFile("slots 2,[n2=1]\ncomplex_values lic=2\npe_list fill round\n"), map[string]string{
			"queues/b.q": "qname b.q\nhostlist n1\nslots 1\nload_thresholds NONE\npe_list round\n",
			"sched_conf": "max_reservation 2\ndefault_duration 100\njob_load_adjustments NONE\n",
		}),
		before: []scheduler.Requests{{Queues: "a.q@n1"}, {Queues: "a.q@n2"}},
	}.make(t)
	fill := func(queue string) *scheduler.Requests {
		return &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Queues: queue, Hard: setting("lic", "1")}
	}
	all := fill("a.q")
	all.Slots = slotsOf(t, "3")
	narrow := fill("a.q@n1")
	narrow.Hard = setting("lic", "3")
	jobs := []*scheduler.Job{serialJob(t, s.Model(), 1, fill("a.q@n1")), serialJob(t, s.Model(), 2, all), serialJob(t, s.Model(), 3, narrow)}
	never := fill("a.q@n1")
	never.Slots = slotsOf(t, "3")
	jobs = append(jobs, serialJob(t, s.Model(), 4, never))
	jobs[0].Reserve, jobs[3].Reserve = true, true
	for _, j := range jobs {
		submit(t, s, j)
	}
	d := s.Run(900)
	if len(d.Reservations) != 1 {
		t.Fatalf("reserved: %+v", d.Reservations)
	}
	for i, want := range [][]string{
		{
			`cannot run in queue "b.q" because it is not contained in its hard queue list (-q)`,
			`cannot run in queue "a.q@n2" because it is not contained in its hard queue list (-q)`,
			`cannot run in PE "fill" because it only offers 1 slots`,
			`cannot run in queue "b.q" because it is not contained in its hard queue list (-q)`, // and at the end no a.q@n2: n1 has enough
		},
		{
			`cannot run in queue "b.q" because it is not contained in its hard queue list (-q)`,
			`cannot run in PE "fill" because it only offers 1 slots`,
		},
		{
			`cannot run in queue "b.q" because it is not contained in its hard queue list (-q)`,
			`(-l lic=3) cannot run in queue "a.q@n1" because it offers only qc:lic=2.000000`,
			`cannot run in PE "fill" because it only offers 0 slots`,
		},
		{ // there are never enough
			`cannot run in queue "b.q" because it is not contained in its hard queue list (-q)`,
			`cannot run in PE "fill" because it only offers 1 slots`,
		},
	} {
		if diff := cmp.Diff(want, texts(d.Reasons(jobs[i]))); diff != "" {
			t.Errorf("job %d: %s", i+1, diff)
		}
	}
}

// TestInstanceOfReservation checks which instance is reserved if several become free at the same
// time. For the first serial job or the first reservation of a run, full instances have their usual
// places in the order; for all others they are at the end. Recorded with MONITOR=1.
func TestInstanceOfReservation(t *testing.T) {
	serial, parallel := scheduler.Requests{}, scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}
	long := func(r scheduler.Requests, limit string) scheduler.Requests {
		r.Hard = setting("h_rt", limit)
		return r
	}
	for name, c := range map[string]struct {
		asks []scheduler.Requests // the first of which does not reserve if idle is set
		idle bool
		want string
	}{
		"serial jobs":                 {asks: []scheduler.Requests{serial, long(serial, "2000"), long(serial, "2001")}, want: "[1=a.q@n1 2=a.q@n3 3=a.q@n3]"},
		"parallel jobs":               {asks: []scheduler.Requests{parallel, long(parallel, "2000"), long(parallel, "2001")}, want: "[1=a.q@n1 2=a.q@n3 3=a.q@n3]"},
		"a parallel and a serial one": {asks: []scheduler.Requests{parallel, long(serial, "2000")}, want: "[1=a.q@n1 2=a.q@n3]"},
		"a serial and a parallel one": {asks: []scheduler.Requests{serial, long(parallel, "2000")}, want: "[1=a.q@n1 2=a.q@n3]"},
		"behind an idle serial job":   {asks: []scheduler.Requests{serial, long(serial, "2000"), long(serial, "2001")}, idle: true, want: "[2=a.q@n3 3=a.q@n3]"},
		"behind an idle parallel job": {asks: []scheduler.Requests{parallel, long(parallel, "2000"), long(parallel, "2001")}, idle: true, want: "[2=a.q@n1 3=a.q@n3]"},
	} {
		files := map[string]string{
			"hosts/global": "hostname global\n",
			"queues/a.q":   "qname a.q\nhostlist n1 n2 n3 n4\nslots 1,[n3=3],[n4=3]\nload_thresholds NONE\npe_list fill\n",
			"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
			"complexes":    "hot hot DOUBLE >= YES NO 0 0\n",
			"sched_conf":   "max_reservation 20\ndefault_duration 3600\njob_load_adjustments NONE\nload_formula hot\n",
			"rqs":          "{\n name few\n enabled TRUE\n limit to slots=4\n}\n",
		}
		for i := range 4 {
			files[fmt.Sprintf("hosts/n%d", i+1)] = fmt.Sprintf("hostname n%d\n", i+1)
		}
		m := modelOf(t, directory(files))
		s := scheduler.NewState(m)
		for i := range 4 {
			host := fmt.Sprintf("n%d", i+1)
			if err := s.SetLoad(host, map[string]string{"hot": fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			id, _ := m.Instance("a.q", host)
			r := &scheduler.Running{
				Job: serialJob(t, m, uint32(100+i), &scheduler.Requests{}), Task: 1, Started: 900, PE: scheduler.None, Limit: 600,
				Grants: []scheduler.Grant{{Instance: id, Slots: 1}},
			}
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
		}
		for i := range c.asks {
			j := serialJob(t, m, uint32(i+1), &c.asks[i])
			j.Reserve = i > 0 || !c.idle
			submit(t, s, j)
		}
		var got []string
		for _, r := range s.Run(1000).Reservations {
			got = append(got, fmt.Sprintf("%d=%s", r.Job.ID, m.InstanceName(r.Grants[0].Instance)))
		}
		if text := fmt.Sprint(got); text != c.want {
			t.Errorf("%s: reserved %s, want %s", name, text, c.want)
		}
	}
}

// TestReasonsAboutReservedResources checks the reasons if resources are taken only for a time:
// sizes are plain numbers, a parallel job gets reasons about quotas, and the reason about the
// cluster names the slots that will be free in the end.
func TestReasonsAboutReservedResources(t *testing.T) {
	for _, c := range []struct {
		name         string
		files        map[string]string
		before, busy scheduler.Requests // runs, and reserves
		ask          scheduler.Requests
		want         []string
	}{
		{
			name: "a size", files: merged(hostFile("complex_values mem=3G\n"), queueFile("slots 3,[n2=0]\n")),
			before: hard("mem", "1G"), busy: hard("mem", "3G"), ask: hard("mem", "1G"),
			want: []string{`(-l mem=1G) cannot run at host "n1" because it offers only hc:mem=0.000000 due to a reservation`},
		},
		{
			name: "a size in use", files: merged(hostFile("complex_values mem=3G\n"), queueFile("slots 3,[n2=0]\n")),
			before: hard("mem", "2G"), busy: hard("mem", "3G"), ask: hard("mem", "2G"),
			want: []string{`(-l mem=2G) cannot run at host "n1" because it offers only hc:mem=0.000000`},
		},
		{
			name: "a quota", files: merged(queueFile("slots 4,[n2=0]\n"), map[string]string{"pes/fill": "pe_name fill\nslots 100\nallocation_rule $fill_up\n", "rqs": "{\n name few\n enabled TRUE\n limit users {*} to slots=3\n}\n"}),
			busy: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3")}, ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")},
			want: []string{`cannot run because it exceeds limit "alice/////" in rule "few/1"`, `cannot run in PE "fill" because it only offers 0 slots`},
		},
		{
			name: "a quota before one that is too small", files: merged(hostFile("complex_values mem=3G\n"), queueFile("slots 4,[n2=0]\n"), map[string]string{"rqs": "{\n name few\n enabled TRUE\n limit users {*} to slots=1\n}\n{\n name small\n enabled TRUE\n limit to mem=1G\n}\n"}),
			before: hard("mem", "1G"), busy: hard("mem", "1G"), ask: hard("mem", "2G"),
			want: []string{`cannot run because it exceeds limit "alice/////" in rule "few/1"`},
		},
		{
			name: "a host for oneself", files: merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 9,[n2=0]\n")),
			before: hard("excl", "TRUE"), busy: hard("excl", "TRUE"), ask: hard("excl", "TRUE", "cap", "2"),
			want: []string{`(-l cap=2,excl=TRUE) cannot run at host "n1" because exclusive resource (excl) is already in use`},
		},
		{
			name: "a host for oneself, and its queues", files: merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 9,[n2=0]\ncomplex_values cap=1\n")),
			before: hard("excl", "TRUE"), busy: hard("excl", "TRUE"), ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: settings(asMap([]string{"excl", "TRUE", "cap", "2"}))},
			want: []string{
				`(-l cap=2,excl=TRUE) cannot run in queue "n1" because exclusive resource (excl) is already in use`,
				`cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a host that never has enough for all slots, and its queues", files: merged(
				hostFile("complex_values mem=2G\n"), queueFile("slots 9,[n2=0]\ncomplex_values frc=1\npe_list smp\n"),
				map[string]string{"pes/smp": "pe_name smp\nslots 9\nallocation_rule $pe_slots\n"},
			),
			before: hard("frc", "1"), busy: hard("frc", "1"), ask: scheduler.Requests{PE: "smp", Slots: slotsOf(t, "3"), Hard: setting("mem", "1G")},
			want: []string{`cannot run in PE "smp" because it only offers 0 slots`},
		},
		{
			name: "the cluster", files: merged(globalFile("complex_values lic=3\n"), queueFile("slots 9,[n2=0]\n")),
			before: hard("lic", "1"), busy: hard("lic", "3"), ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3"), Hard: setting("lic", "2")},
			want: []string{`cannot run in PE "fill" because it only offers 1 slots`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files:  merged(c.files, map[string]string{"sched_conf": "max_reservation 1\ndefault_duration 100\njob_load_adjustments NONE\n"}),
				before: []scheduler.Requests{c.before},
			}.make(t)
			first, j := serialJob(t, s.Model(), 1, &c.busy), serialJob(t, s.Model(), 2, &c.ask)
			first.Reserve = true
			first.Priority = 1000
			submit(t, s, first)
			submit(t, s, j)
			d := s.Run(950)
			if len(d.Reservations) != 1 {
				t.Errorf("reserved: %+v", d.Reservations)
			}
			if diff := cmp.Diff(c.want, texts(d.Reasons(j))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReservationsWaitForQuotas submits a parallel job that only a quota keeps from starting: slots
// are reserved from the time when the quota leaves enough.
func TestReservationsWaitForQuotas(t *testing.T) {
	s := scene{files: map[string]string{
		"queues/a.q": "qname a.q\nhostlist n1\nslots 4\nload_thresholds NONE\npe_list fill\n",
		"queues/b.q": "qname b.q\nhostlist n2\nslots 4\nload_thresholds NONE\npe_list NONE\n",
		"rqs":        "{\n name few\n enabled TRUE\n limit to slots=2\n}\n",
		"sched_conf": "max_reservation 1\ndefault_duration 1000\njob_load_adjustments NONE\n",
	}}.make(t)
	begin(t, s, 1, &scheduler.Requests{Queues: "b.q"})
	j := serialJob(t, s.Model(), 2, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")})
	j.Reserve = true
	submit(t, s, j)
	// Until 100 seconds after the start, and duration_offset.
	if got, want := decided(s.Run(1000)), "2@1160"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReservingJobRestoresDroppedInstances sets up an instance that the load adjustments of a run put
// into alarm. It is available again, for all jobs, from the first job that may get a reservation.
// An instance that was in alarm before the run is not.
func TestReservingJobRestoresDroppedInstances(t *testing.T) {
	for _, c := range []struct{ name, load, reservations, second, request, want string }{
		{"nobody may get one", "0.1", "4", "no", "", "a.q@n1 a.q@n2"},
		{"none are made", "0.1", "0", "yes", "", "a.q@n1 a.q@n2"},
		{"the second job may", "0.1", "4", "yes", "", "a.q@n1 a.q@n2 a.q@n1"},
		{"the second job may, and never finds a place", "0.1", "4", "yes", "os", "a.q@n1 a.q@n1"},
		{"the second job may, and finds it there", "0.1", "4", "yes", "hostname", "a.q@n1 a.q@n1"},
		{"an alarm from before", "0.9", "4", "yes", "", "a.q@n2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files: map[string]string{
					"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 4\nload_thresholds np_load_avg=0.4\n",
					"sched_conf": "job_load_adjustments np_load_avg=0.5\nmax_reservation " + c.reservations + "\n",
				},
				load: map[string]map[string]string{"n1": {"np_load_avg": c.load}, "n2": {"np_load_avg": "0.2"}},
			}.make(t)
			if c.load == "0.1" {
				submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{}))
			}
			second := scheduler.Requests{}
			if c.request != "" {
				second.Hard = []qconf.Setting{{Name: c.request, Value: "n1"}}
			}
			j := serialJob(t, s.Model(), 2, &second)
			j.Reserve = c.second == "yes"
			submit(t, s, j)
			submit(t, s, serialJob(t, s.Model(), 3, &scheduler.Requests{Queues: "*@n1"}))
			d := s.Run(1000)
			var got []string
			for i := range d.Starts {
				got = append(got, s.Model().InstanceName(d.Starts[i].Grants[0].Instance))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestRestoredInstanceIsLast sets up an instance that is restored as in
// TestReservingJobRestoresDroppedInstances: whatever its seq_no is, it is the last one until hosts
// change places. Seed 1795446864 shows that.
func TestRestoredInstanceIsLast(t *testing.T) {
	for _, c := range []struct{ name, third, want string }{
		{"hosts have the places that they had", "*@n2", "b.q@n1 a.q@n2 a.q@n1"},
		{"hosts have just changed places", "*@n1", "b.q@n1 a.q@n1 b.q@n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files: map[string]string{
					"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1,[n1=4]\nseq_no 20\nload_thresholds NONE\n",
					"queues/b.q": "qname b.q\nhostlist n1\nslots 4\nseq_no 10\nload_thresholds np_load_avg=0.4\n",
					"sched_conf": "queue_sort_method seqno\njob_load_adjustments np_load_avg=0.5\nmax_reservation 4\n",
				},
				load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "1.0"}},
			}.make(t)
			submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{}))
			submit(t, s, serialJob(t, s.Model(), 2, &scheduler.Requests{Queues: c.third}))
			j := serialJob(t, s.Model(), 3, &scheduler.Requests{})
			j.Reserve = true
			submit(t, s, j)
			d := s.Run(1000)
			var got []string
			for i := range d.Starts {
				got = append(got, s.Model().InstanceName(d.Starts[i].Grants[0].Instance))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestReservationUsesSmallestNumberOfSlots submits a parallel job with a range of slots: slots are
// reserved only in environments whose allocation rule allows the smallest number. Seed 1795446826
// shows that.
func TestReservationUsesSmallestNumberOfSlots(t *testing.T) {
	for slots, want := range map[string]string{"3-": "a.q@n1=2, a.q@n2=1", "4-": "a.q@n1=2, a.q@n2=2"} {
		s := scene{
			files: merged(queueFile("slots 2\npe_list few two\n"), map[string]string{
				"sched_conf": "max_reservation 2\ndefault_duration 100\njob_load_adjustments NONE\n",
				"pes/two":    "pe_name two\nslots 100\nallocation_rule 2\n",
				"pes/few":    "pe_name few\nslots 3\nallocation_rule $fill_up\n",
			}),
			before: []scheduler.Requests{{Queues: "a.q@n1"}, {Queues: "a.q@n2"}},
		}.make(t)
		j := serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "[ft]*", Slots: slotsOf(t, slots)})
		j.Reserve = true
		submit(t, s, j)
		d := s.Run(1000)
		if len(d.Reservations) != 1 || granted(s, d.Reservations[0].Grants) != want {
			t.Errorf("%s: reserved: %+v, want %s", slots, d.Reservations, want)
		}
	}
}

// TestReservedInTheFirstEnvironment submits a job that two parallel environments suit: places are reserved
// in the first one that ever has any, even if the other one has places earlier, or more slots.
func TestReservedInTheFirstEnvironment(t *testing.T) {
	for _, c := range []struct {
		name           string
		slotsOfB       string
		untilA, untilB string // h_rt of jobs that use the environments
		request        scheduler.Requests
		want           string
	}{
		{"the first one is free first", "2", "500", "1000", scheduler.Requests{Slots: slotsOf(t, "2")}, "pa at 1560: 2"},
		{"the second one is free first", "2", "1000", "500", scheduler.Requests{Slots: slotsOf(t, "2")}, "pa at 2060: 2"},
		{"the second one has more slots", "4", "500", "500", scheduler.Requests{Slots: slotsOf(t, "2-4")}, "pa at 1560: 2"},
		{"the second one meets a soft request", "2", "500", "500", scheduler.Requests{Slots: slotsOf(t, "2"), SoftQueues: "b.q"}, "pb at 1560: 2"},
		{"the second one could do so earlier", "2", "500", "300", scheduler.Requests{Slots: slotsOf(t, "2"), SoftQueues: "b.q"}, "pb at 1560: 2"},
		{"the second one can do so later", "2", "500", "800", scheduler.Requests{Slots: slotsOf(t, "2"), SoftQueues: "b.q"}, "pa at 1560: 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: map[string]string{
				"queues/a.q": "qname a.q\nhostlist n1\nslots 8\nload_thresholds NONE\npe_list pa\n",
				"queues/b.q": "qname b.q\nhostlist n1\nslots 8\nload_thresholds NONE\npe_list pb\n",
				"pes/pa":     "pe_name pa\nslots 2\nallocation_rule $fill_up\n",
				"pes/pb":     "pe_name pb\nslots " + c.slotsOfB + "\nallocation_rule $fill_up\n",
				"sched_conf": "max_reservation 2\ndefault_duration 100\njob_load_adjustments NONE\n",
			}}.make(t)
			submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "pa", Slots: slotsOf(t, "2"), Hard: setting("h_rt", c.untilA)}))
			submit(t, s, serialJob(t, s.Model(), 2, &scheduler.Requests{PE: "pb", Slots: slotsOf(t, c.slotsOfB), Hard: setting("h_rt", c.untilB)}))
			c.request.PE = "p*"
			j := serialJob(t, s.Model(), 3, &c.request)
			j.Reserve = true
			submit(t, s, j)
			d := s.Run(1000)
			if len(d.Reservations) != 1 {
				t.Fatalf("%d places are reserved", len(d.Reservations))
			}
			r := d.Reservations[0]
			if got := fmt.Sprintf("%s at %d: %d", s.Model().PEName(r.PE), r.At, r.Grants[0].Slots); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestEnvironmentsInTheOrderOfChanges has two parallel environments that are equally good for a job: the
// least recently modified one is used: the start and the end of a job modify its environment.
func TestEnvironmentsInTheOrderOfChanges(t *testing.T) {
	s := scene{files: map[string]string{
		"queues/a.q": "qname a.q\nhostlist n1\nslots 8\nload_thresholds NONE\npe_list pa pb\n",
		"pes/pa":     "pe_name pa\nslots 5\nallocation_rule $fill_up\n",
		"pes/pb":     "pe_name pb\nslots 5\nallocation_rule $fill_up\n",
	}}.make(t)
	var got []string
	var tasks []*scheduler.Running
	for id, ends := range []int{-1, -1, -1, 1, -1} {
		if ends >= 0 {
			if err := s.End(tasks[ends]); err != nil {
				t.Fatal(err)
			}
		}
		j := serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{PE: "p*", Slots: slotsOf(t, "1")})
		submit(t, s, j)
		d := s.Run(1000)
		x := d.Starts[0]
		task := &scheduler.Running{Job: j, Task: x.Task, Started: 1000, PE: x.PE, Grants: x.Grants}
		if err := s.Start(task); err != nil {
			t.Fatal(err)
		}
		s.Dequeue(j)
		tasks, got = append(tasks, task), append(got, s.Model().PEName(x.PE))
	}
	// The second job, in pb, ends before the fourth one starts.
	if want := "pa pb pa pa pb"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// TestSubordinatedInstanceIsNotRestored sets up an instance that a job of the run suspends by
// subordination: it is not restored, even where the original restores it.
func TestSubordinatedInstanceIsNotRestored(t *testing.T) {
	s := scene{files: map[string]string{
		"queues/a.q": "qname a.q\nhostlist n1\nslots 1\nseq_no 1\nload_thresholds NONE\nsubordinate_list b.q=1\n",
		"queues/b.q": "qname b.q\nhostlist n1\nslots 1\nseq_no 2\nload_thresholds NONE\n",
		"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\nmax_reservation 1\n",
	}}.make(t)
	submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{}))
	j := serialJob(t, s.Model(), 2, &scheduler.Requests{})
	j.Reserve = true
	submit(t, s, j)
	if d := s.Run(1000); len(d.Starts) != 1 {
		t.Errorf("starts %+v", d.Starts)
	}
}

// TestFullQueueBarsSlotWiseSubordinates fills an instance with slot-wise subordination: no other job of the
// same run starts in the subordinate instance, although its tasks may run there from the next run on.
func TestFullQueueBarsSlotWiseSubordinates(t *testing.T) {
	s := scene{files: map[string]string{
		"queues/a.q": "qname a.q\nhostlist n1\nslots 2\nseq_no 1\nload_thresholds NONE\nsubordinate_list slots=4(b.q:1:sr)\n",
		"queues/b.q": "qname b.q\nhostlist n1\nslots 2\nseq_no 2\nload_thresholds NONE\n",
		"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\n",
	}}.make(t)
	submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{Queues: "b.q"}))
	for id := uint32(2); id <= 4; id++ {
		submit(t, s, serialJob(t, s.Model(), id, &scheduler.Requests{}))
	}
	for run, want := range []string{"b.q@n1=1, a.q@n1=1, a.q@n1=1", "b.q@n1=1"} {
		d := s.Run(1000)
		var grants []scheduler.Grant
		for i := range d.Starts {
			grants = append(grants, d.Starts[i].Grants...)
		}
		if got := granted(s, grants); got != want {
			t.Errorf("run %d starts tasks in %s, want %s", run+1, got, want)
		}
		start(t, s, d)
	}
}

// TestQuotaAfterEnoughSlotsForLater fills a quota for a while. The reasons of a parallel job that gets a reservation
// name the quota only on hosts after those that will have enough slots for it.
func TestQuotaAfterEnoughSlotsForLater(t *testing.T) {
	for slots, want := range map[string][]string{
		"1": {`cannot run because it exceeds limit "/////" in rule "few/1"`, `cannot run in PE "fill" because it only offers 0 slots`},
		"3": {`cannot run in PE "fill" because it only offers 0 slots`},
	} {
		s := scene{
			files: merged(queueFile("slots 2\n"), map[string]string{
				"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
				"rqs":        "{\n name few\n enabled TRUE\n limit to slots=3\n}\n",
				"sched_conf": "max_reservation 1\ndefault_duration 100\njob_load_adjustments NONE\n",
			}),
			before: []scheduler.Requests{{Queues: "a.q@n1"}, {Queues: "a.q@n2"}, {Queues: "a.q@n2"}},
		}.make(t)
		j := serialJob(t, s.Model(), 9, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots)})
		j.Reserve = true
		submit(t, s, j)
		var got []string
		for _, r := range s.Run(1000).Reasons(j) {
			got = append(got, r.Text())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s slots: %s", slots, diff)
		}
	}
}

// TestReservationSortsFullHostsByNewLoad makes a reservation after a job that has filled a host:
// the host has the place of its new load, although it is full.
func TestReservationSortsFullHostsByNewLoad(t *testing.T) {
	s := scene{
		files: merged(queueFile("slots 2\n"), map[string]string{
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
			"sched_conf": "max_reservation 2\ndefault_duration 100\nweight_urgency 0\njob_load_adjustments np_load_avg=0.5\n",
		}),
		load:   map[string]map[string]string{"n1": {"np_load_avg": "0"}, "n2": {"np_load_avg": "0.1"}},
		before: []scheduler.Requests{{Queues: "a.q@n2"}},
	}.make(t)
	for i, slots := range []string{"2", "3"} {
		j := serialJob(t, s.Model(), uint32(i+1), &scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots)})
		j.Reserve = true
		submit(t, s, j)
	}
	d := s.Run(1000)
	if got := grantText(s.Model(), d); got != "fill a.q@n1=2" {
		t.Fatalf("the first job starts in %q", got)
	}
	if len(d.Reservations) != 1 || granted(s, d.Reservations[0].Grants) != "a.q@n2=2, a.q@n1=1" {
		t.Errorf("reserved: %+v", d.Reservations)
	}
}
