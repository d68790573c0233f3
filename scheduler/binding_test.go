package scheduler_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// The switch of sched_conf(5), and its absence.
const (
	aware   = "params BINDING_AWARE=true"
	unaware = "params NONE"
)

// cores returns a cluster whose hosts n1, n2 ... report these topologies and topologies in use,
// "SCC" or "SCC/ScC"; "" for none. Each has two queues with 8 slots, n1 before n2.
func cores(t testing.TB, sched string, hosts ...string) *scheduler.State {
	t.Helper()
	names, seqno := "", ""
	files := map[string]string{
		"sched_conf": "algorithm default\njob_load_adjustments NONE\nload_formula slots\nqueue_sort_method seqno\nschedd_job_info true\n" + sched + "\n",
		"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		"pes/two":    "pe_name two\nslots 100\nallocation_rule 2\n",
		"pes/one":    "pe_name one\nslots 100\nallocation_rule $pe_slots\n",
	}
	for i := range hosts {
		n := string(rune('1' + i))
		names += " n" + n
		seqno += ",[n" + n + "=" + n + "]"
		files["hosts/n"+n] = "hostname n" + n + "\n"
	}
	for _, q := range []string{"q", "r"} {
		files["queues/"+q] = "qname " + q + "\nhostlist" + names + "\nslots 8\nload_thresholds NONE\npe_list fill two one\nseq_no 0" + seqno + "\n"
	}
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	cluster, err := qconf.Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := scheduler.NewState(m)
	for i, h := range hosts {
		reportCores(t, s, scheduler.HostID(i), h)
	}
	return s
}

func reportCores(t testing.TB, s *scheduler.State, h scheduler.HostID, text string) {
	t.Helper()
	values := map[string]string{}
	if all, inUse, found := strings.Cut(text, "/"); all != "" {
		values["m_topology"], values["m_topology_inuse"] = all, all
		if found {
			values["m_topology_inuse"] = inUse
		}
	}
	if err := s.SetLoad(s.Model().HostName(h), values); err != nil {
		t.Fatal(err)
	}
}

func linear(n int) binding.Request {
	return binding.Request{Strategy: binding.Linear, Amount: n, Slots: n == 0}
}

func striding(n, step int) binding.Request {
	return binding.Request{Strategy: binding.Striding, Amount: n, Step: step}
}

func explicit(t testing.TB, text string) binding.Request {
	t.Helper()
	pairs, err := topology.ParsePairs(text)
	if err != nil {
		t.Fatal(err)
	}
	return binding.Request{Strategy: binding.Explicit, Pairs: pairs}
}

func exactly(t testing.TB, n int) rangelist.List { return fromTo(t, n, n) }

func fromTo(t testing.TB, first, last int) rangelist.List {
	t.Helper()
	l, err := rangelist.Of(first, last, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// granted returns the grants of a task as text: queue@host=slots, and its cores.
func granted(s *scheduler.State, grants []scheduler.Grant) string {
	var all []string
	for _, g := range grants {
		text := s.Model().InstanceName(g.Instance) + "=" + string(rune('0'+g.Slots))
		if len(g.Cores) > 0 {
			text += " on " + topology.FormatPairs(g.Cores)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// outcome returns the result of a run for a job: its grants, or the reasons why it is pending.
func outcome(s *scheduler.State, d *scheduler.Decisions, j *scheduler.Job) string {
	for i := range d.Starts {
		if d.Starts[i].Job == j {
			return granted(s, d.Starts[i].Grants)
		}
	}
	var all []string
	for _, r := range d.Reasons(j) {
		all = append(all, r.Text())
	}
	return strings.Join(all, "; ")
}

func TestBinding(t *testing.T) {
	from := linear(2)
	from.HasStart, from.Core = true, 1
	for what, c := range map[string]struct {
		hosts   []string
		request scheduler.Requests
		want    string
	}{
		"no binding": {[]string{"Scc/Scc"}, scheduler.Requests{}, "q@n1=1"},
		"linear":     {[]string{"SCCSCC"}, scheduler.Requests{Binding: linear(2)}, "q@n1=1 on 0,0:0,1"},
		"linear beside cores in use": {
			[]string{"SCCSCC/ScCSCC"},
			scheduler.Requests{Binding: linear(2)},
			"q@n1=1 on 1,0:1,1",
		},
		"the next host, where the first has too few": {
			[]string{"SCCSCC/SccSCc", "SCCC"},
			scheduler.Requests{Binding: linear(2)},
			"q@n2=1 on 0,0:0,1",
		},
		"too few": {
			[]string{"SCCSCC/ScCScC"},
			scheduler.Requests{Binding: linear(4)},
			`cannot run at host "n1" because its binding linear:4 does not fit the free cores ScCScC`,
		},
		"too few on each host": {
			[]string{"SCC", "SCTTCTT/SCTTctt"},
			scheduler.Requests{Binding: striding(2, 2)},
			`cannot run at host "n1" because its binding striding:2:2 does not fit the free cores SCC; ` +
				`cannot run at host "n2" because its binding striding:2:2 does not fit the free cores SCTTctt`,
		},
		"linear from a core that is free": {[]string{"SCCC"}, scheduler.Requests{Binding: from}, "q@n1=1 on 0,1:0,2"},
		"linear from a core in use": {
			[]string{"SCCC/SCcC"},
			scheduler.Requests{Binding: from},
			`cannot run at host "n1" because its binding linear:2:0,1 does not fit the free cores SCcC`,
		},
		"striding": {[]string{"SCCCC/ScCCC"}, scheduler.Requests{Binding: striding(2, 2)}, "q@n1=1 on 0,1:0,3"},
		"explicit": {[]string{"SCCSCC"}, scheduler.Requests{Binding: explicit(t, "1,1:0,0")}, "q@n1=1 on 1,1:0,0"},
		"explicit, with an amount that has no meaning": {
			[]string{"SCC"},
			scheduler.Requests{Binding: binding.Request{Strategy: binding.Explicit, Amount: 9, Pairs: explicit(t, "0,1").Pairs}},
			"q@n1=1 on 0,1",
		},
		"explicit in use": {
			[]string{"SCCSCC/SCCSCc"},
			scheduler.Requests{Binding: explicit(t, "1,1:0,0")},
			`cannot run at host "n1" because its binding explicit:1,1:0,0 does not fit the free cores SCCSCc`,
		},
		"another instance is told": {
			[]string{"SC/Sc"},
			scheduler.Requests{Binding: binding.Request{Instance: binding.Env, Strategy: binding.Linear, Amount: 1}},
			`cannot run at host "n1" because its binding env linear:1 does not fit the free cores Sc`,
		},
		"a core for each slot of a serial job":           {[]string{"SCC"}, scheduler.Requests{Binding: linear(0)}, "q@n1=1 on 0,0"},
		"a host without a topology":                      {[]string{""}, scheduler.Requests{Binding: linear(2)}, "q@n1=1"},
		"a host that does not know its topology":         {[]string{"NONE"}, scheduler.Requests{Binding: linear(2)}, "q@n1=1"},
		"a topology that cannot be read":                 {[]string{"SCX"}, scheduler.Requests{Binding: linear(2)}, "q@n1=1"},
		"another topology in use":                        {[]string{"SCC/SccCC"}, scheduler.Requests{Binding: linear(2)}, "q@n1=1 on 0,0:0,1"},
		"the same cores on each host":                    {[]string{"SCCC", "SCCC"}, scheduler.Requests{Binding: linear(3), PE: "two", Slots: exactly(t, 4)}, "q@n1=2 on 0,0:0,1:0,2, q@n2=2 on 0,0:0,1:0,2"},
		"once for several queues of a host":              {[]string{"SCCC"}, scheduler.Requests{Binding: linear(2), PE: "fill", Slots: exactly(t, 9)}, "r@n1=1 on 0,0:0,1, q@n1=8"},
		"cores for the slots of all queues of a host":    {[]string{"SCCCCCCCCCCCC"}, scheduler.Requests{Binding: linear(0), PE: "one", Slots: exactly(t, 9)}, "r@n1=1 on 0,0:0,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8, q@n1=8"},
		"as many slots as cores":                         {[]string{"SCCC/SCcC", "SCC"}, scheduler.Requests{Binding: linear(0), PE: "fill", Slots: fromTo(t, 1, 9)}, "q@n1=2 on 0,0:0,2, q@n2=2 on 0,0:0,1"},
		"as many slots as successive cores from a start": {[]string{"SCCCC/SCCCc"}, scheduler.Requests{Binding: binding.Request{Strategy: binding.Linear, Slots: true, HasStart: true, Core: 1}, PE: "fill", Slots: fromTo(t, 1, 9)}, "q@n1=2 on 0,1:0,2"},
		"a parallel job passes by a host":                {[]string{"SC", "SCC"}, scheduler.Requests{Binding: linear(2), PE: "fill", Slots: exactly(t, 3)}, "q@n2=3 on 0,0:0,1"},
		"no host for a parallel job": {
			[]string{"SC"},
			scheduler.Requests{Binding: linear(2), PE: "fill", Slots: exactly(t, 2)},
			`cannot run at host "n1" because its binding linear:2 does not fit the free cores SC; cannot run in PE "fill" because it only offers 0 slots`,
		},
		"a host with a topology and one without": {[]string{"SC", ""}, scheduler.Requests{Binding: linear(2)}, "q@n2=1"},
	} {
		t.Run(what, func(t *testing.T) {
			s := cores(t, aware, c.hosts...)
			c.request.User = "u"
			j := enqueue(t, s, 1, &c.request)
			if got := outcome(s, s.Run(100), j); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if _, ok := s.Verify(j, scheduler.EmptyCluster, 100); ok != (what != "too few on each host" && what != "no host for a parallel job") {
				t.Errorf("in an empty cluster: %v", ok)
			}
		})
	}
}

func TestLoadValuesOfCores(t *testing.T) {
	for report, want := range map[string]string{
		"SCX":       `load value m_topology of host n1: cannot read topology "SCX": none of S, C and T at character 3`,
		"SCC/C":     `load value m_topology_inuse of host n1: cannot read topology "C": a core before the first socket at character 1`,
		"SCC/SccCC": `load value m_topology_inuse of host n1: "SccCC" is another topology than "SCC"`,
	} {
		s := cores(t, aware, report)
		found := false
		for _, err := range s.Problems(0) {
			found = found || err.Error() == want
		}
		if !found {
			t.Errorf("%s: got %v, want %s", report, s.Problems(0), want)
		}
	}
}

// TestCoresAreBooked checks that jobs of a run get cores of their own, until they end.
func TestCoresAreBooked(t *testing.T) {
	s := cores(t, aware, "SCCCC")
	for id := range uint32(4) {
		enqueue(t, s, id+1, &scheduler.Requests{User: "u", Binding: linear(2)})
	}
	free := func(want string) {
		t.Helper()
		if shape, ok := s.FreeCores(0); !ok || shape.String() != want {
			t.Errorf("free cores %v, want %s", shape, want)
		}
	}
	s.Run(100)
	free("SCCCC") // as before
	first := run(t, s, 100)
	free("Scccc")
	if len(first) != 2 || granted(s, first[1].Grants) != "q@n1=1 on 0,0:0,1" || granted(s, first[2].Grants) != "q@n1=1 on 0,2:0,3" {
		t.Fatalf("got %v", first)
	}
	if next := run(t, s, 110); len(next) != 0 {
		t.Errorf("started without cores: %v", next)
	}
	// The host says the same as the tasks.
	reportCores(t, s, 0, "SCCCC/Scccc")
	if err := s.End(first[1]); err != nil {
		t.Fatal(err)
	}
	free("Scccc") // until the host reports it
	reportCores(t, s, 0, "SCCCC/SCCcc")
	free("SCCcc")
	if next := run(t, s, 120); len(next) != 1 || granted(s, next[3].Grants) != "q@n1=1 on 0,0:0,1" {
		t.Errorf("got %v", next)
	}
}

// TestSwitchedOff checks that without BINDING_AWARE, the scheduler ignores bindings.
func TestSwitchedOff(t *testing.T) {
	s := cores(t, unaware, "SCCC/Sccc")
	j := enqueue(t, s, 1, &scheduler.Requests{User: "u", Binding: linear(4)})
	k := enqueue(t, s, 2, &scheduler.Requests{User: "u"})
	if j.Category != k.Category {
		t.Error("a category of its own")
	}
	d := s.Run(100)
	if got := outcome(s, d, j) + "; " + outcome(s, d, k); got != "q@n1=1; q@n1=1" {
		t.Errorf("got %s", got)
	}
	if _, ok := s.FreeCores(0); ok {
		t.Error("there are free cores")
	}
	if on := cores(t, aware, "SCCC"); enqueue(t, on, 1, &scheduler.Requests{Binding: linear(4)}).Category == enqueue(t, on, 2, &scheduler.Requests{}).Category {
		t.Error("switched on: the same category")
	}
}

// TestCoresAreReserved checks that a job with a reservation gets its cores when they are free, and no
// other job delays it.
func TestCoresAreReserved(t *testing.T) {
	limit := func(seconds string) []qconf.Setting { return request("h_rt", seconds) }
	s := cores(t, "params BINDING_AWARE=1,DURATION_OFFSET=0\nmax_reservation 5\ndefault_duration 1:0:0", "SCCCC")
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Queues: "q", Hard: limit("1000"), Binding: linear(2)})
	for _, r := range run(t, s, 0) {
		r.Limit = 1000
	}
	big := enqueue(t, s, 2, &scheduler.Requests{User: "u", Queues: "q", Hard: limit("100"), Binding: linear(3)})
	big.Reserve = true
	long := enqueue(t, s, 3, &scheduler.Requests{User: "u", Queues: "q", Hard: limit("2000"), Binding: linear(2)})
	short := enqueue(t, s, 4, &scheduler.Requests{User: "u", Queues: "q", Hard: limit("500"), Binding: linear(2)})
	d := s.Run(100)
	if len(d.Reservations) != 1 || d.Reservations[0].At != 1000 || granted(s, d.Reservations[0].Grants) != "q@n1=1 on 0,0:0,1:0,2" {
		t.Errorf("reserved: %+v", d.Reservations)
	}
	for j, want := range map[*scheduler.Job]string{
		big:   `cannot run at host "n1" because its binding linear:3 does not fit the free cores SccCC`,
		long:  `cannot run at host "n1" because its binding linear:2 does not fit the free cores ScccC due to a reservation`,
		short: "q@n1=1 on 0,2:0,3",
	} {
		got := strings.TrimPrefix(outcome(s, d, j), `cannot run in queue "r" because it is not contained in its hard queue list (-q); `)
		if got != want {
			t.Errorf("job %d: got %s, want %s", j.ID, got, want)
		}
	}
	// Reported cores that belong to no known task may be free in the next run.
	reportCores(t, s, 0, "SCCCC/SCccC")
	if d := s.Run(100); len(d.Reservations) != 1 || d.Reservations[0].At != 1000 {
		t.Errorf("reserved: %+v", d.Reservations)
	}
}

func TestParallelJobReservesCores(t *testing.T) {
	s := cores(t, "params BINDING_AWARE=1,DURATION_OFFSET=0\nmax_reservation 5", "SCC", "SCC/ScC")
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Queues: "q", Hard: request("h_rt", "1000"), Binding: linear(1)})
	for _, r := range run(t, s, 0) {
		r.Limit = 1000
	}
	j := enqueue(t, s, 2, &scheduler.Requests{User: "u", Queues: "q", Hard: request("h_rt", "100"), Binding: linear(2), PE: "two", Slots: exactly(t, 4)})
	j.Reserve = true
	d := s.Run(100)
	if len(d.Reservations) != 1 || d.Reservations[0].At != 1000 || granted(s, d.Reservations[0].Grants) != "q@n1=2 on 0,0:0,1, q@n2=2 on 0,0:0,1" {
		t.Errorf("reserved: %+v", d.Reservations)
	}
}

// TestReservationBehindCoresOfSomebodyElse checks that reported cores that belong to no task count as
// used until the next run.
func TestReservationBehindCoresOfSomebodyElse(t *testing.T) {
	for what, r := range map[string]*scheduler.Requests{
		"serial":   {User: "u", Binding: linear(2)},
		"parallel": {User: "u", Binding: linear(2), PE: "two", Slots: exactly(t, 2)},
	} {
		s := cores(t, "params BINDING_AWARE=1\nmax_reservation 5\nschedule_interval 0:0:20", "SCC/ScC")
		enqueue(t, s, 1, r).Reserve = true
		d := s.Run(100)
		if len(d.Starts) != 0 || len(d.Reservations) != 1 || d.Reservations[0].At != 120 {
			t.Errorf("%s: started %v, reserved %v", what, d.Starts, d.Reservations)
		}
	}
}

// TestReservationBehindAStart checks that reservations come after tasks that start in the same run.
func TestReservationBehindAStart(t *testing.T) {
	s := cores(t, "params BINDING_AWARE=1,DURATION_OFFSET=0\nmax_reservation 5", "SCC")
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: request("h_rt", "300"), Binding: linear(1)})
	enqueue(t, s, 2, &scheduler.Requests{User: "u", Hard: request("h_rt", "300"), Binding: linear(2)}).Reserve = true
	d := s.Run(100)
	if len(d.Starts) != 1 || len(d.Reservations) != 1 || d.Reservations[0].At != 400 {
		t.Errorf("started %v, reserved %v", d.Starts, d.Reservations)
	}
}

// TestCoresOfATaskBeyondItsTime checks that a task that runs for longer than expected keeps its cores,
// even if the time of the next run is unknown.
func TestCoresOfATaskBeyondItsTime(t *testing.T) {
	s := cores(t, "params BINDING_AWARE=1,DURATION_OFFSET=0\nmax_reservation 5\nschedule_interval 0:0:0\ndefault_duration 0:0:10", "SC")
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Binding: linear(1)})
	run(t, s, 100)
	enqueue(t, s, 2, &scheduler.Requests{User: "u", Binding: linear(1)})
	if next := run(t, s, 200); len(next) != 0 {
		t.Errorf("started: %v", next)
	}
}

// TestCoresInAnAdvanceReservation checks that in an advance reservation a job gets cores that are free
// at its start: the reservation contains slots only.
func TestCoresInAnAdvanceReservation(t *testing.T) {
	s := cores(t, aware, "SCCC/ScCC")
	m := s.Model()
	q, _ := m.Instance("q", "n1")
	r, _ := m.Instance("r", "n1")
	fill, _ := m.PE("fill")
	category, err := m.Category(&scheduler.Requests{User: "u", PE: "fill", Slots: exactly(t, 4)})
	if err != nil {
		t.Fatal(err)
	}
	addReservation(t, s, &scheduler.Reservation{ID: 7, Start: 50, End: 1000, Category: category, PE: fill, Grants: []scheduler.Grant{{Instance: q, Slots: 2}, {Instance: r, Slots: 2}}})
	slots := enqueue(t, s, 1, &scheduler.Requests{User: "u", Reservation: 7, Binding: linear(0), PE: "fill", Slots: fromTo(t, 1, 4)})
	late := enqueue(t, s, 2, &scheduler.Requests{User: "u", Reservation: 7, Binding: linear(1)})
	d := s.Run(100)
	if got, want := outcome(s, d, slots), "q@n1=2 on 0,1:0,2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := outcome(s, d, late), `cannot run at host "n1" because its binding linear:1 does not fit the free cores Sccc`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
