package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/scheduler"
)

// proposal is a proposed start: slots by instance, the master's first.
type proposal struct {
	scene
	scheduler.Requests
	pe     string
	grants []slotsAt
	away   scheduler.Away
}

type slotsAt struct {
	host  string
	slots int
}

func (p *proposal) running(t *testing.T, s *scheduler.State) *scheduler.Running {
	t.Helper()
	r := &scheduler.Running{Job: serialJob(t, s.Model(), 1, &p.Requests), Task: 1, PE: scheduler.None, Away: p.away}
	if p.pe != "" {
		r.PE, _ = s.Model().PE(p.pe)
	}
	if p.grants == nil {
		p.grants = []slotsAt{{"n1", 1}}
	}
	for _, g := range p.grants {
		id, ok := s.Model().Instance("a.q", g.host)
		if !ok {
			t.Fatalf("no instance on %s", g.host)
		}
		r.Grants = append(r.Grants, scheduler.Grant{Instance: id, Slots: g.slots})
	}
	return r
}

// TestReasonsOfAdmit tries each cause against a start.
func TestReasonsOfAdmit(t *testing.T) {
	fill := func(slots string) scheduler.Requests { return scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots)} }
	with := func(r scheduler.Requests, pairs ...string) scheduler.Requests {
		r.Hard = settings(asMap(pairs))
		return r
	}
	two := []slotsAt{{"n1", 2}}
	state := func(s scheduler.Status) scene { return scene{state: map[string]scheduler.Status{"a.q@n1": s}} }
	quota := func(rule string) scene {
		return scene{files: map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit " + rule + "\n}\n"}}
	}
	for name, c := range map[string]struct {
		proposal
		want []string
	}{
		"a job that fits":              {},
		"a parallel job that fits":     {proposal: proposal{Requests: fill("3"), pe: "fill", grants: []slotsAt{{"n1", 2}, {"n2", 1}}}},
		"disabled":                     {proposal{scene: state(scheduler.DisabledByUser)}, []string{`queue instance "a.q@n1" dropped because it is disabled`}},
		"disabled by a calendar":       {proposal{scene: state(scheduler.DisabledByCalendar)}, []string{`queue instance "a.q@n1" dropped because it is disabled`}},
		"suspended":                    {proposal{scene: state(scheduler.SuspendedByUser)}, []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		"in error":                     {proposal{scene: state(scheduler.Failed)}, []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		"another instance is disabled": {proposal: proposal{scene: state(scheduler.DisabledByUser), grants: []slotsAt{{"n2", 1}}}},
		"full": {
			proposal{scene: scene{before: []scheduler.Requests{{Queues: onN1}, {Queues: onN1}}}},
			[]string{`queue instance "a.q@n1" dropped because it is full`},
		},
		"load alarm": {
			proposal{scene: scene{files: queueFile("load_thresholds hot=1\n"), load: map[string]map[string]string{"n1": {"hot": "2"}}}},
			[]string{`queue instance "a.q@n1" dropped because it is overloaded: hot=2.000000 (no load adjustment) >= 1`},
		},
		"no load value": {
			proposal{scene: scene{files: queueFile("load_thresholds hot=1\n")}},
			[]string{`queue instance "a.q@n1" dropped because it is overloaded: no value for complex attribute "hot"`},
		},
		"load adjustments raise no alarm": {proposal: proposal{scene: scene{
			files: merged(queueFile("load_thresholds hot=1\n"), map[string]string{"sched_conf": "job_load_adjustments hot=1\nload_adjustment_decay_time 0:10:0\n"}),
			load:  map[string]map[string]string{"n1": {"hot": "0"}, "n2": {"hot": "0"}}, before: []scheduler.Requests{{Queues: onN1}},
		}}},
		"what is left of a consumable raises no alarm": {proposal: proposal{scene: scene{
			files:  merged(queueFile("load_thresholds lic=1\n"), hostFile("complex_values lic=2\n")),
			before: []scheduler.Requests{{Queues: onN1, Hard: settings(asMap([]string{"lic", "1"}))}},
		}}},
		"suspend alarm": {
			proposal{scene: scene{files: queueFile("suspend_thresholds hot=1\n"), load: map[string]map[string]string{"n1": {"hot": "2"}}}},
			[]string{`queue instance "a.q@n1" is in suspend alarm: hot=2.000000 (no load adjustment) >= 1`},
		},
		"no access to the queue": {
			proposal{scene: scene{files: queueFile("user_lists staff\n")}}, []string{`has no permission for cluster queue "a.q"`},
		},
		"no access to the host":    {proposal{scene: scene{files: hostFile("user_lists staff\n")}}, []string{`has no permission for host "n1"`}},
		"no access to the cluster": {proposal{scene: scene{files: globalFile("xuser_lists me\n")}}, []string{`has no permission for host "global"`}},
		"another project": {
			proposal{scene: scene{files: hostFile("projects p1\n")}, Requests: scheduler.Requests{Project: "p2"}},
			[]string{`(project p2) does not have the correct project to run in host "n1"`},
		},
		"another queue": {
			proposal{Requests: scheduler.Requests{Queues: "a.q@n2"}},
			[]string{`cannot run in queue "n1" because it is not contained in its hard queue list (-q)`},
		},
		"not interactive": {
			proposal{scene: scene{files: queueFile("qtype BATCH\n")}, Requests: scheduler.Requests{Immediate: true}},
			[]string{`cannot run in queue "a.q" because it is not of type interactive`},
		},
		"not batch": {
			proposal{scene: scene{files: queueFile("qtype INTERACTIVE\n")}}, []string{`cannot run in queue instance "a.q@n1" because it is not of type batch`},
		},
		"no checkpointing": {
			proposal{Requests: scheduler.Requests{Checkpoint: "ck"}}, []string{`cannot run in queue instance "a.q@n1" because it is not of type checkpointing`},
		},
		"a consumable of the host": {
			proposal{scene: scene{files: hostFile("complex_values lic=1\n")}, Requests: hard("lic", "2")},
			[]string{`(-l lic=2) cannot run at host "n1" because it offers only hc:lic=1.000000`},
		},
		"a run time above the limit of the queue": {
			proposal{scene: scene{files: queueFile("h_rt 100\n")}, Requests: hard("h_rt", "101")},
			[]string{`(-l h_rt=101) cannot run in queue "a.q" because of cluster queue`},
		},
		"alone": {
			proposal{scene: scene{files: hostFile("complex_values excl=TRUE\n"), before: []scheduler.Requests{{Queues: onN1}}}, Requests: hard("excl", "TRUE")},
			[]string{`(-l excl=TRUE) cannot run at host "n1" because exclusive resource (excl) is already in use`},
		},
		"a quota of users": {proposal{scene: quota("users alice to slots=0")}, []string{`cannot run because it exceeds limit "/////" in rule "q/1"`}},
		"a quota and a parallel job": {
			proposal{scene: quota("hosts {*} to slots=1"), Requests: fill("2"), pe: "fill", grants: two},
			[]string{`cannot run because it exceeds limit "////n1/" in rule "q/1"`},
		},
		"another environment": {
			proposal{Requests: fill("2"), pe: "round", grants: two}, []string{`no matching PE found`},
		},
		"an environment that the queue does not offer": {
			proposal{Requests: scheduler.Requests{PE: "round", Slots: slotsOf(t, "2")}, pe: "round", grants: two},
			[]string{`cannot run in queue "a.q" because PE "round" is not in PE list`},
		},
		"no access to the environment": {
			proposal{
				scene:    scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 3\nallocation_rule $fill_up\nuser_lists staff\n"}},
				Requests: fill("2"), pe: "fill", grants: two,
			},
			[]string{`cannot run because no access to PE "fill"`},
		},
		"not the requested number of slots": {
			proposal{Requests: fill("1"), pe: "fill", grants: two}, []string{`cannot run because total slots of PE "fill" not in range of job`},
		},
		"the environment is in use": {
			proposal{scene: scene{before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "2"), Queues: "a.q@n2"}}}, Requests: fill("2"), pe: "fill", grants: two},
			[]string{`cannot run in PE "fill" because it only offers 1 slots`},
		},
		"slots on one host": {
			proposal{
				scene:    scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 3\nallocation_rule $pe_slots\n"}},
				Requests: fill("2"), pe: "fill", grants: []slotsAt{{"n1", 1}, {"n2", 1}},
			},
			[]string{`cannot run in PE "fill" because its allocation rule $pe_slots does not allow 1 of 2 slots on host "n1"`},
		},
		"a fixed number of slots on each host": {
			proposal{
				scene:    scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 3\nallocation_rule 1\n"}},
				Requests: fill("2"), pe: "fill", grants: two,
			},
			[]string{`cannot run in PE "fill" because its allocation rule 1 does not allow 2 of 2 slots on host "n1"`},
		},
		"more slots than there are": {
			proposal{Requests: fill("3"), pe: "fill", grants: []slotsAt{{"n1", 3}}}, []string{`cannot run in queue "a.q@n1" because it only offers 2 slots`},
		},
		"a consumable for some slots": {
			proposal{scene: scene{files: hostFile("complex_values lic=1\n")}, Requests: with(fill("2"), "lic", "1"), pe: "fill", grants: two},
			[]string{`cannot run in queue "n1" because it only offers 1 slots`},
		},
		"others than jobs use a consumable": {
			proposal{
				scene:    scene{files: hostFile("complex_values lic=4\n"), load: map[string]map[string]string{"n1": {"lic": "1"}}},
				Requests: with(fill("2"), "lic", "1"), pe: "fill", grants: two,
			},
			[]string{`cannot run in queue "n1" because it only offers 1 slots`},
		},
		"a consumable for no slot": {
			proposal{scene: scene{files: hostFile("complex_values lic=0\n")}, Requests: with(fill("2"), "lic", "1"), pe: "fill", grants: two},
			[]string{`(-l lic=1) cannot run in queue "n1" because it offers only hc:lic=0.000000`},
		},
		"each host has its reason": {
			proposal{
				scene:    scene{files: map[string]string{"hosts/n1": "hostname n1\ncomplex_values lic=0\n", "hosts/n2": "hostname n2\nuser_lists staff\n"}},
				Requests: with(fill("2"), "lic", "1"), pe: "fill", grants: []slotsAt{{"n1", 1}, {"n2", 1}},
			},
			[]string{`(-l lic=1) cannot run in queue "n1" because it offers only hc:lic=0.000000`, `has no permission for host "n2"`},
		},
		"the cluster is asked for slots elsewhere": {
			proposal{scene: scene{files: globalFile("complex_values lic=2\n")}, Requests: with(fill("3"), "lic", "1"), pe: "fill", grants: two, away: scheduler.Away{Slots: 1}},
			[]string{`cannot run in queue "global" because it only offers 2 slots`},
		},
		"slots elsewhere are those of the environment": {
			proposal{Requests: fill("4"), pe: "fill", grants: two, away: scheduler.Away{Slots: 2}}, []string{`cannot run in PE "fill" because it only offers 3 slots`},
		},
		"the master queue": {
			proposal{Requests: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), MasterQueues: "a.q@n2"}, pe: "fill", grants: []slotsAt{{"n1", 1}, {"n2", 1}}},
			[]string{`cannot run in queue "a.q@n1" because it is not contained in its hard queue list (-q)`},
		},
		"slaves need no master queue": {
			proposal: proposal{
				Requests: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), MasterQueues: "a.q@n2"}, pe: "fill",
				grants: []slotsAt{{"n1", 1}}, away: scheduler.Away{Slots: 1, Master: true},
			},
		},
		"an unknown reservation": {proposal: proposal{scene: quota("to slots=0"), Requests: scheduler.Requests{Reservation: 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.make(t)
			reasons, err := s.Admit(c.running(t, s), 1000)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, texts(reasons)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAdmitRefusesWhatIsNoStart passes invalid starts.
func TestAdmitRefusesWhatIsNoStart(t *testing.T) {
	s := scene{}.make(t)
	other := scene{}.make(t)
	serial, parallel := scheduler.Requests{}, scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}
	for name, c := range map[string]struct {
		r    scheduler.Requests
		edit func(r *scheduler.Running)
	}{
		"no grants":                 {serial, func(r *scheduler.Running) { r.Grants = nil }},
		"no slots":                  {serial, func(r *scheduler.Running) { r.Grants[0].Slots = 0 }},
		"no such instance":          {serial, func(r *scheduler.Running) { r.Grants[0].Instance = 99 }},
		"two slots of a serial":     {serial, func(r *scheduler.Running) { r.Grants[0].Slots = 2 }},
		"a serial one elsewhere":    {serial, func(r *scheduler.Running) { r.Away.Slots = 1 }},
		"an environment too many":   {serial, func(r *scheduler.Running) { r.PE = 0 }},
		"no environment":            {parallel, func(r *scheduler.Running) { r.PE = scheduler.None }},
		"no such environment":       {parallel, func(r *scheduler.Running) { r.PE = 99 }},
		"an instance twice":         {parallel, func(r *scheduler.Running) { r.Grants = append(r.Grants, r.Grants[0]) }},
		"a master without slots":    {parallel, func(r *scheduler.Running) { r.Away.Master = true }},
		"another configuration":     {serial, func(r *scheduler.Running) { r.Job = serialJob(t, other.Model(), 1, &scheduler.Requests{}) }},
		"fewer than none elsewhere": {parallel, func(r *scheduler.Running) { r.Away.Slots = -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			p := proposal{Requests: c.r, pe: c.r.PE}
			r := p.running(t, s)
			c.edit(r)
			if reasons, err := s.Admit(r, 1000); err == nil {
				t.Errorf("%q and no error", texts(reasons))
			}
		})
	}
}

// TestAdmitLooksAtElements gives tasks elements of resource maps.
func TestAdmitLooksAtElements(t *testing.T) {
	for name, c := range map[string]struct {
		give []string // of gpu
		lic  []string
		away scheduler.Away
		want []string
	}{
		"free ones":        {give: []string{"g1", "g3"}, lic: []string{"x"}},
		"too few":          {give: []string{"g1"}, lic: []string{"x"}, want: []string{`cannot run in queue "n1" because it has been given 1 elements of (gpu) and takes 2`}},
		"none":             {lic: []string{"x"}, want: []string{`cannot run in queue "n1" because it has been given 0 elements of (gpu) and takes 2`}},
		"one in use":       {give: []string{"g0", "g1"}, lic: []string{"x"}, want: []string{`cannot run in queue "n1" because "g0" of resource (gpu) is already in use`}},
		"one twice":        {give: []string{"g1", "g1"}, lic: []string{"x"}, want: []string{`cannot run in queue "n1" because "g1" of resource (gpu) is already in use`}},
		"one that is none": {give: []string{"g1", "a"}, lic: []string{"x"}, want: []string{`cannot run in queue "n1" because "a" is not an element of resource (gpu)`}},
		"one for the job":  {give: []string{"g1", "g2"}, want: []string{`cannot run in queue "global" because it has been given 0 elements of (lic) and takes 1`}},
		"slaves have none": {give: []string{"g1", "g2"}, away: scheduler.Away{Slots: 1, Master: true}},
		"one that it does not take": {
			give: []string{"g1", "g2"}, lic: []string{"x"}, away: scheduler.Away{Slots: 1, Master: true},
			want: []string{`cannot run in queue "global" because it has been given ["x"] of (lic), which it does not take there`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := gpus(t)
			gpu, _ := s.Model().Attribute("gpu")
			lic, _ := s.Model().Attribute("lic")
			id, _ := s.Model().Instance("q", "n1")
			host := s.Model().HostOf(id)
			elements := func(give, l []string) (list []scheduler.MapElements) {
				if len(give) > 0 {
					list = append(list, scheduler.MapElements{Attribute: gpu, At: scheduler.AtHost(host), IDs: give})
				}
				if len(l) > 0 {
					list = append(list, scheduler.MapElements{Attribute: lic, At: scheduler.AtGlobal(), IDs: l})
				}
				return list
			}
			before := &scheduler.Running{
				Job: serialJob(t, s.Model(), 1, &scheduler.Requests{Hard: request("gpu", "1")}), PE: scheduler.None,
				Grants: []scheduler.Grant{{Instance: id, Slots: 1, Elements: elements([]string{"g0"}, nil)}},
			}
			if err := s.Start(before); err != nil {
				t.Fatal(err)
			}
			r := &scheduler.Running{
				Job:    serialJob(t, s.Model(), 2, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2-3"), Hard: settings(asMap([]string{"gpu", "1", "lic", "1"}))}),
				Grants: []scheduler.Grant{{Instance: id, Slots: 2, Elements: elements(c.give, c.lic)}}, Away: c.away,
			}
			reasons, err := s.Admit(r, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, texts(reasons)); diff != "" {
				t.Error(diff)
			}
			if len(reasons) > 0 {
				return
			}
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
			if again, _ := s.Admit(r, 1000); len(again) == 0 {
				t.Error("the same elements are admitted twice")
			}
		})
	}
}

// TestAdmitLooksAtCores gives tasks cores, or leaves them to the host.
func TestAdmitLooksAtCores(t *testing.T) {
	pair := func(core int) topology.Pair { return topology.Pair{Core: core} }
	for name, c := range map[string]struct {
		binding binding.Request
		give    []topology.Pair
		want    []string
	}{
		"free ones":              {binding: linear(2), give: []topology.Pair{pair(1), pair(2)}},
		"left to the host":       {binding: linear(2)},
		"more than are free":     {binding: linear(4), want: []string{`cannot run at host "n1" because its binding linear:4 does not fit the free cores ScCCC`}},
		"one in use":             {binding: linear(2), give: []topology.Pair{pair(0), pair(1)}, want: []string{`cannot run at host "n1" because its binding linear:2 does not fit the free cores ScCCC`}},
		"one twice":              {binding: linear(2), give: []topology.Pair{pair(1), pair(1)}, want: []string{`cannot run at host "n1" because its binding linear:2 does not fit the free cores ScCCC`}},
		"one that is not there":  {binding: linear(2), give: []topology.Pair{pair(1), pair(4)}, want: []string{`cannot run at host "n1" because its binding linear:2 does not fit the free cores ScCCC`}},
		"without a binding none": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := cores(t, aware, "SCCCC")
			start := func(id uint32, b binding.Request, give []topology.Pair) *scheduler.Running {
				return &scheduler.Running{
					Job: serialJob(t, s.Model(), id, &scheduler.Requests{Binding: b}), PE: scheduler.None,
					Grants: []scheduler.Grant{{Slots: 1, Cores: give}},
				}
			}
			if err := s.Start(start(1, linear(1), []topology.Pair{pair(0)})); err != nil {
				t.Fatal(err)
			}
			reasons, err := s.Admit(start(2, c.binding, c.give), 1000)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, texts(reasons)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlavesTakeNothingOnce books the part of a job without its master task.
func TestSlavesTakeNothingOnce(t *testing.T) {
	c := scene{files: map[string]string{
		"complexes": "tok tok INT <= YES JOB 0 0\n", "hosts/n1": "hostname n1\ncomplex_values tok=1\n", "hosts/n2": "hostname n2\n",
		"hosts/global": "hostname global\ncomplex_values slots=5\n",
		"rqs":          "{\n name q\n enabled TRUE\n limit hosts n1 to tok=1,slots=3\n}\n",
	}}
	c.files["queues/a.q"] = "qname a.q\nhostlist n1 n2\nslots 4\nload_thresholds NONE\npe_list fill\n"
	c.files["pes/fill"] = "pe_name fill\nslots 9\nallocation_rule $fill_up\n"
	s := c.make(t)
	r := scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: request("tok", "1")}
	slave := proposal{Requests: r, pe: "fill", grants: []slotsAt{{"n1", 1}}, away: scheduler.Away{Slots: 1, Master: true}}
	master := proposal{Requests: r, pe: "fill", grants: []slotsAt{{"n1", 2}}}
	first, second := slave.running(t, s), master.running(t, s)
	for _, x := range []*scheduler.Running{first, second} {
		if reasons, err := s.Admit(x, 0); err != nil || len(reasons) > 0 {
			t.Errorf("%q, %v", texts(reasons), err)
		}
		if err := s.Start(x); err != nil {
			t.Fatal(err)
		}
	}
	reasons, _ := s.Admit(master.running(t, s), 0)
	if diff := cmp.Diff([]string{`cannot run in queue "global" because it only offers 1 slots`}, texts(reasons)); diff != "" {
		t.Error(diff)
	}
	if err := s.End(first); err != nil {
		t.Fatal(err)
	}
	reasons, _ = s.Admit(master.running(t, s), 0)
	if diff := cmp.Diff([]string{`(-l tok=1) cannot run in queue "n1" because it offers only hc:tok=0.000000`}, texts(reasons)); diff != "" {
		t.Error(diff)
	}
	if err := s.End(second); err != nil {
		t.Fatal(err)
	}
	if reasons, _ := s.Admit(master.running(t, s), 0); len(reasons) > 0 {
		t.Errorf("when all has ended: %q", texts(reasons))
	}
}
