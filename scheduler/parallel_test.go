package scheduler_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// TestAllocation checks where the slots of a parallel job are, the master task first: sge_pe(5),
// allocation_rule. a.q has four slots on n1, n2 and n3 each, b.q three on n3 and six on n4; n3 has
// five slots in all.
func TestAllocation(t *testing.T) {
	files := map[string]string{
		"hosts/n3": "hostname n3\ncomplex_values slots=5\n", "hosts/n4": "hostname n4\n",
		"queues/a.q": "qname a.q\nhostlist n1 n2 n3\nslots 4\nseq_no 1,[n2=2],[n3=3]\nload_thresholds NONE\npe_list fixed pes fill rr small one\n",
		"queues/b.q": "qname b.q\nhostlist n3 n4\nslots 3,[n4=6]\nseq_no 10,[n4=11]\nload_thresholds NONE\npe_list fixed pes fill rr\n",
		"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\n",
	}
	for name, rule := range map[string]string{"fixed": "2", "pes": "$pe_slots", "fill": "$fill_up", "rr": "$round_robin", "one": "1"} {
		files["pes/"+name] = "pe_name " + name + "\nslots 100\nallocation_rule " + rule + "\n"
	}
	files["pes/small"] = "pe_name small\nslots 5\nallocation_rule $fill_up\n"
	for _, c := range []struct {
		pe, slots string
		ask       scheduler.Requests
		want      string // empty if it does not start
	}{
		{pe: "fixed", slots: "6", want: "fixed a.q@n1=2 a.q@n2=2 a.q@n3=2"},
		{pe: "fixed", slots: "5"},
		{pe: "fixed", slots: "1-9", want: "fixed a.q@n1=2 a.q@n2=2 a.q@n3=2 b.q@n4=2"},
		{pe: "pes", slots: "4-8", want: "pes b.q@n4=6"},
		{pe: "pes", slots: "7"},
		{pe: "pes", slots: "5", want: "pes b.q@n3=1 a.q@n3=4"},
		{pe: "fill", slots: "7", want: "fill a.q@n1=4 a.q@n2=3"},
		{pe: "fill", slots: "20"},
		{pe: "fill", slots: "10-", want: "fill a.q@n1=4 a.q@n2=4 a.q@n3=4 b.q@n3=1 b.q@n4=6"},
		{pe: "rr", slots: "7", want: "rr a.q@n1=2 a.q@n2=2 a.q@n3=2 b.q@n4=1"},
		{pe: "small", slots: "3-9", want: "small a.q@n1=4 a.q@n2=1"},
		{pe: "small", slots: "6"},
		{pe: "one", slots: "3", want: "one a.q@n1=1 a.q@n2=1 a.q@n3=1"},
		{pe: "one", slots: "4"},
		{pe: "fill", slots: "6", ask: scheduler.Requests{MasterQueues: "b.q"}, want: "fill b.q@n3=1 a.q@n1=4 a.q@n2=1"},
		{pe: "fill", slots: "6", ask: scheduler.Requests{MasterQueues: "b.q@n4", Queues: "a.q"}, want: "fill b.q@n4=1 a.q@n1=4 a.q@n2=1"},
		{pe: "fill", slots: "4", ask: scheduler.Requests{MasterQueues: "a.q@n1", Queues: "b.q"}, want: "fill a.q@n1=1 b.q@n3=3"},
		{pe: "fill", slots: "7", ask: scheduler.Requests{MasterQueues: "a.q", Queues: "*@n1"}, want: "fill a.q@n1=4 a.q@n2=3"},
		{pe: "rr", slots: "5", ask: scheduler.Requests{MasterQueues: "a.q@n1", Queues: "a.q@n2"}, want: "rr a.q@n1=3 a.q@n2=2"},
		{pe: "rr", slots: "5", ask: scheduler.Requests{Queues: "*@n3"}, want: "rr a.q@n3=4 b.q@n3=1"},
		{pe: "fill", slots: "3,5,11", want: "fill a.q@n1=4 a.q@n2=4 a.q@n3=3"},
		{pe: "fill", slots: "5", ask: scheduler.Requests{Queues: "*@n3"}, want: "fill b.q@n3=1 a.q@n3=4"},
		{pe: "r?", slots: "2", want: "rr a.q@n1=1 a.q@n2=1"},
	} {
		t.Run(c.pe+" "+c.slots, func(t *testing.T) {
			s := scene{files: files}.make(t)
			r := c.ask
			r.PE, r.Slots = c.pe, slotsOf(t, c.slots)
			submit(t, s, serialJob(t, s.Model(), 1, &r))
			d := s.Run(1000)
			if got := grantText(s.Model(), d); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestJobConsumables requests a consumable that a job takes once, on the host of its master task
// (complex(5), consumable JOB).
func TestJobConsumables(t *testing.T) {
	s := scene{files: map[string]string{
		"complexes":    "tok tok INT <= YES JOB 0 0\n",
		"hosts/global": "hostname global\ncomplex_values tok=5\n",
		"hosts/n1":     "hostname n1\ncomplex_values tok=1\n",
		"hosts/n2":     "hostname n2\ncomplex_values tok=3\n",
		"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		"queues/a.q":   "qname a.q\nhostlist n1 n2\nslots 4\nseq_no 0,[n2=1]\nload_thresholds NONE\npe_list fill\n",
		"sched_conf":   "queue_sort_method seqno\njob_load_adjustments NONE\n",
		"rqs":          "{\n name q\n enabled TRUE\n limit users {*} to tok=4\n}\n",
	}}.make(t)
	m := s.Model()
	tok, _ := m.Attribute("tok")
	var running []*scheduler.Running
	start := func(id uint32, slots, tok, want string) {
		t.Helper()
		j := serialJob(t, m, id, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots), Hard: setting("tok", tok)})
		submit(t, s, j)
		d := s.Run(1000)
		s.Dequeue(j)
		got := ""
		for i := range d.Starts {
			x := &d.Starts[i]
			got = grantsText(m, x.PE, x.Grants)
			r := &scheduler.Running{Job: j, Task: 1, Started: 1000, PE: x.PE, Grants: x.Grants}
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
			running = append(running, r)
		}
		if got != want {
			t.Errorf("job %d: %s, want %s", id, got, want)
		}
	}
	left := func(place, want string) {
		t.Helper()
		h, _ := m.Host(place)
		for _, r := range s.Observe(1000).Host(h) {
			if r.Attribute == tok && r.Value.String() != want {
				t.Errorf("%s has %s, want %s", place, r.Value, want)
			}
		}
	}
	start(1, "5", "2", "fill a.q@n2=1 a.q@n1=4") // n1 has too little for the master task, but slots
	left("global", "3")
	left("n1", "1")
	left("n2", "1")
	start(2, "3", "2", "") // neither host has so much
	start(3, "3", "1", "fill a.q@n2=3")
	left("global", "2")
	left("n2", "0")
	for _, r := range running {
		if err := s.End(r); err != nil {
			t.Fatal(err)
		}
	}
	left("global", "5")
	left("n2", "3")
	start(4, "2", "5", "") // the quota
}

// TestJobConsumableThatSomeHostsLack requests a consumable that some hosts do not have: they have
// slots for the job, but not for its master task.
func TestJobConsumableThatSomeHostsLack(t *testing.T) {
	s := scene{files: map[string]string{
		"complexes":  "tok tok INT <= YES JOB 0 0\n",
		"hosts/n2":   "hostname n2\ncomplex_values tok=1\n",
		"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 4\nseq_no 0,[n2=1]\nload_thresholds NONE\npe_list fill\n",
		"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\n",
	}}.make(t)
	for tok, want := range map[string]string{"1": "fill a.q@n2=1 a.q@n1=4", "2": ""} {
		j := serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "5"), Hard: setting("tok", tok)})
		submit(t, s, j)
		got := ""
		for _, x := range s.Run(1000).Starts {
			got = grantsText(s.Model(), x.PE, x.Grants)
		}
		if s.Dequeue(j); got != want {
			t.Errorf("with tok=%s: %s, want %s", tok, got, want)
		}
	}
}

// TestParallelQuotas sets a quota that leaves fewer slots than there are.
func TestParallelQuotas(t *testing.T) {
	files := merged(queueFile("slots 4\npe_list fill round\n"), map[string]string{
		"pes/fill": "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		"rqs":      "{\n name one\n enabled TRUE\n limit users {*} hosts {n1} to slots=2\n}\n{\n name both\n enabled TRUE\n limit pes {fill,round} to slots=5\n limit pes !* to slots=1\n}\n",
	})
	for _, c := range []struct{ name, pe, slots, want string }{
		{"around it", "fill", "4", "fill a.q@n1=2 a.q@n2=2"},
		{"all of it", "fill", "5", "fill a.q@n1=2 a.q@n2=3"},
		{"too much", "fill", "6", ""},
		{"a range", "fill", "3-8", "fill a.q@n1=2 a.q@n2=3"},
		{"in turns", "round", "5", "round a.q@n1=2 a.q@n2=3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: files}.make(t)
			submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: c.pe, Slots: slotsOf(t, c.slots)}))
			d := s.Run(1000)
			if got := grantText(s.Model(), d); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestQuotaRuleRefusedByFirstInstance sets up a rule that is first checked for a queue instance which
// lacks a queue parameter that the job requests. As in the original, the rule then leaves no slots
// anywhere. Other requests, and rules for one host, do not have this effect.
func TestQuotaRuleRefusedByFirstInstance(t *testing.T) {
	for _, c := range []struct{ name, rule, slots, request, value, want string }{
		{"the host", "to slots=9", "1", "hostname", "n2", ""},
		{"the host, and it is the first", "to slots=9", "1", "hostname", "n1", "fill a.q@n1=1"},
		{"the host, for some user", "users {*} to slots=9", "1", "hostname", "n2", ""},
		{"the host, for each host", "hosts {*} to slots=9", "1", "hostname", "n2", "fill a.q@n2=1"},
		{"the host, for other users", "users bob to slots=9", "1", "hostname", "n2", "fill a.q@n2=1"},
		{"the host, a limit on what is not requested", "to tok=9", "1", "hostname", "n2", ""},
		{"the host, after others", "to slots=9", "5", "hostname", "n1|n3", "fill a.q@n1=4 a.q@n3=1"},
		{"time", "to slots=9", "1", "h_rt", "700", ""},
		{"some time", "to slots=9", "1", "h_rt", "500", "fill a.q@n1=1"},
		{"what the queue has besides", "to slots=9", "1", "rank", "2", "fill a.q@n2=1"},
		{"a consumable", "to slots=9", "1", "tok", "2", "fill a.q@n2=1"},
		{"what the host has", "to slots=9", "1", "num_proc", "8", "fill a.q@n2=1"},
	} {
		for _, reserve := range []string{"0", "1"} {
			t.Run(c.name+", max_reservation "+reserve, func(t *testing.T) {
				s := scene{
					files: map[string]string{
						"complexes":  "tok tok INT <= YES YES 0 0\nrank rank INT <= YES NO 0 0\n",
						"hosts/n1":   "hostname n1\n",
						"hosts/n2":   "hostname n2\n",
						"hosts/n3":   "hostname n3\n",
						"queues/a.q": "qname a.q\nhostlist n1 n2 n3\nslots 4\nload_thresholds NONE\npe_list fill\nh_rt INFINITY,[n1=600]\ncomplex_values tok=9,rank=3,[n1=tok=1,rank=1]\n",
						"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
						"rqs":        "{\n name one\n enabled TRUE\n limit " + c.rule + "\n}\n",
						"sched_conf": "job_load_adjustments NONE\nmax_reservation " + reserve + "\n",
					},
					load: map[string]map[string]string{
						"n1": {"num_proc": "4", "np_load_avg": "0.1"}, "n2": {"num_proc": "8", "np_load_avg": "0.2"}, "n3": {"num_proc": "8", "np_load_avg": "0.3"},
					},
				}.make(t)
				submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{
					User: "alice", PE: "fill", Slots: slotsOf(t, c.slots), Hard: []qconf.Setting{{Name: c.request, Value: c.value}},
				}))
				d := s.Run(1000)
				if got := grantText(s.Model(), d); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		}
	}
}

// TestQuotaRuleRefusedByOtherQueueOfHost sets up a rule for each queue: all queues of a host are
// checked, even if the first one has enough slots.
func TestQuotaRuleRefusedByOtherQueueOfHost(t *testing.T) {
	s := scene{files: map[string]string{
		"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1,[n1=3]\nseq_no 1\nload_thresholds NONE\npe_list two\n",
		"queues/b.q": "qname b.q\nhostlist n1 n2\nslots 4\nseq_no 2\nload_thresholds NONE\npe_list two\nh_rt INFINITY,[n1=600]\n",
		"pes/two":    "pe_name two\nslots 100\nallocation_rule 2\n",
		"rqs":        "{\n name one\n enabled TRUE\n limit queues {*} to slots=50\n}\n",
		"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\n",
	}}.make(t)
	submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{
		PE: "two", Slots: slotsOf(t, "4"), Hard: []qconf.Setting{{Name: "h_rt", Value: "700"}},
	}))
	submit(t, s, serialJob(t, s.Model(), 2, &scheduler.Requests{PE: "two", Slots: slotsOf(t, "4")}))
	d := s.Run(1000)
	if len(d.Starts) != 1 || grantsText(s.Model(), d.Starts[0].PE, d.Starts[0].Grants) != "two a.q@n1=2 a.q@n2=1 b.q@n2=1" {
		t.Errorf("starts %+v", d.Starts)
	}
}

// TestSoftRequests checks which hosts jobs with soft requests get. A host that refuses a soft
// request ranks behind a host that does not know the attribute. n1 to n3 are in the order of their
// load.
func TestSoftRequests(t *testing.T) {
	for _, c := range []struct {
		name, n1, n2, n3, a, b string // complex_values
		pe, slots, want        string
	}{
		{name: "known nowhere", want: "a.q@n1"},
		{name: "refused, unknown", n1: "os=aix", want: "a.q@n2"},
		{name: "unknown, refused", n2: "os=aix", want: "a.q@n1"},
		{name: "unknown, met", n2: "os=lx", want: "a.q@n2"},
		{name: "refused, unknown, met", n1: "os=aix", n3: "os=lx", want: "a.q@n3"},
		{name: "refused by the queue, unknown", a: "os=aix", want: "a.q@n1"},
		{name: "met by the second queue", b: "os=lx", want: "b.q@n1"},
		{name: "met by the host, refused by the queue", n2: "os=lx", a: "os=aix", b: "os=aix", want: "a.q@n1"},
		{name: "in parallel: refused, unknown, met", n1: "os=aix", n3: "os=lx", pe: "fill", slots: "7", want: "fill b.q@n3=2 a.q@n3=2 a.q@n2=2 b.q@n2=1"},
		{name: "in parallel: met by the second queue", b: "os=lx", pe: "fill", slots: "1", want: "fill b.q@n1=1"},
		{name: "in turns: unknown, refused, met", n2: "os=aix", n3: "os=lx", pe: "round", slots: "4", want: "round a.q@n3=2 a.q@n1=1 a.q@n2=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := func(text string) string { return "complex_values " + cmp.Or(text, "NONE") + "\n" }
			s := scene{
				files: map[string]string{
					"hosts/n1":   "hostname n1\n" + values(c.n1),
					"hosts/n2":   "hostname n2\n" + values(c.n2),
					"hosts/n3":   "hostname n3\n" + values(c.n3),
					"queues/a.q": "qname a.q\nhostlist n1 n2 n3\nseq_no 1\nslots 2\nload_thresholds NONE\npe_list fill round\n" + values(c.a),
					"queues/b.q": "qname b.q\nhostlist n1 n2 n3\nseq_no 2\nslots 2\nload_thresholds NONE\npe_list fill round\n" + values(c.b),
					"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
					"sched_conf": "queue_sort_method seqno\njob_load_adjustments NONE\n",
				},
				load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "0.2"}, "n3": {"np_load_avg": "0.3"}},
			}.make(t)
			r := &scheduler.Requests{PE: c.pe, Soft: []qconf.Setting{{Name: "os", Value: "lx"}}}
			if c.pe != "" {
				r.Slots = slotsOf(t, c.slots)
			}
			submit(t, s, serialJob(t, s.Model(), 1, r))
			d := s.Run(1000)
			if len(d.Starts) != 1 {
				t.Fatalf("starts %+v", d.Starts)
			}
			got := s.Model().InstanceName(d.Starts[0].Grants[0].Instance)
			if c.pe != "" {
				got = grantsText(s.Model(), d.Starts[0].PE, d.Starts[0].Grants)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusedParallelJobRestoresHostOrder sets up a parallel job that is refused before any host is
// checked. The order of the hosts is then as it was before the previous job started, and stays so
// until hosts change places again.
func TestRefusedParallelJobRestoresHostOrder(t *testing.T) {
	for _, c := range []struct{ name, pe, slots, request, want string }{
		{"nothing", "", "", "", "n1 n2 n1 n2 n3"},
		{"a serial job", "", "", "rank", "n1 n2 n1 n2 n3"},
		{"too few slots of the environment", "few", "1", "", "n1 n1 n2 n2 n3"},
		{"the allocation rule", "two", "1", "", "n1 n1 n2 n2 n3"},
		{"the whole cluster", "fill", "1", "lic", "n1 n1 n2 n2 n3"},
		{"no access", "closed", "1", "", "n1 n1 n2 n2 n3"},
		{"all hosts", "fill", "1", "rank", "n1 n2 n1 n2 n3"},
	} {
		for _, reserve := range []string{"0", "1"} {
			t.Run(c.name+", max_reservation "+reserve, func(t *testing.T) {
				s := scene{
					files: map[string]string{
						"complexes":    "lic lic INT <= YES YES 0 0\nrank rank INT <= YES NO 0 0\n",
						"hosts/global": "hostname global\ncomplex_values lic=0\n",
						"hosts/n1":     "hostname n1\ncomplex_values rank=0\n",
						"hosts/n2":     "hostname n2\ncomplex_values rank=0\n",
						"hosts/n3":     "hostname n3\ncomplex_values rank=0\n",
						"usersets/no":  "name no\ntype ACL\nentries bob\n",
						"queues/a.q":   "qname a.q\nhostlist n1 n2 n3\nslots 4\nload_thresholds NONE\npe_list fill few two closed\n",
						"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
						"pes/few":      "pe_name few\nslots 0\nallocation_rule $fill_up\n",
						"pes/two":      "pe_name two\nslots 100\nallocation_rule 2\n",
						"pes/closed":   "pe_name closed\nslots 100\nuser_lists no\nallocation_rule $fill_up\n",
						"sched_conf":   "job_load_adjustments np_load_avg=0.5\nmax_reservation " + reserve + "\n",
					},
					load: map[string]map[string]string{"n1": {"np_load_avg": "0.3"}, "n2": {"np_load_avg": "0.4"}, "n3": {"np_load_avg": "1"}},
				}.make(t)
				submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{}))
				if c.name != "nothing" {
					r := &scheduler.Requests{PE: c.pe}
					if c.pe != "" {
						r.Slots = slotsOf(t, c.slots)
					}
					if c.request != "" {
						r.Hard = []qconf.Setting{{Name: c.request, Value: "1"}}
					}
					submit(t, s, serialJob(t, s.Model(), 2, r))
				}
				for id := range uint32(4) {
					submit(t, s, serialJob(t, s.Model(), 3+id, &scheduler.Requests{}))
				}
				d := s.Run(1000)
				var got []string
				for i := range d.Starts {
					got = append(got, strings.TrimPrefix(s.Model().InstanceName(d.Starts[i].Grants[0].Instance), "a.q@"))
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		}
	}
}

// TestQuotaOfSkippedHostIsReleased sets up a host for which a quota leaves fewer slots than its share
// of a job: the slots counted for it do not count for the other host.
func TestQuotaOfSkippedHostIsReleased(t *testing.T) {
	for _, reserve := range []string{"0", "1"} {
		s := scene{files: merged(queueFile("slots 4\npe_list two\n"), map[string]string{
			"pes/two":    "pe_name two\nslots 100\nallocation_rule 2\n",
			"rqs":        "{\n name host\n enabled TRUE\n limit hosts n1 to slots=1\n}\n{\n name total\n enabled TRUE\n limit users * to slots=2\n}\n",
			"sched_conf": "job_load_adjustments NONE\nmax_reservation " + reserve + "\n",
		})}.make(t)
		submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "two", Slots: slotsOf(t, "2")}))
		d := s.Run(1000)
		if len(d.Starts) != 1 || grantsText(s.Model(), d.Starts[0].PE, d.Starts[0].Grants) != "two a.q@n2=2" {
			t.Errorf("max_reservation %s: starts %+v", reserve, d.Starts)
		}
	}
}

// TestHeadroom checks how many slots of a parallel job the load adjustments allow on a host before
// it is in load alarm.
func TestHeadroom(t *testing.T) {
	for _, c := range []struct{ name, sched, threshold, load, want string }{
		{"jobs that have just started do not count", "job_load_adjustments np_load_avg=0.5\n", "np_load_avg=1", "0", "fill a.q@n2=3 a.q@n1=3"},
		{"no adjustments", "job_load_adjustments NONE\n", "np_load_avg=1", "0", "fill a.q@n1=4 a.q@n2=2"},
		{"two on each", "job_load_adjustments np_load_avg=0.5\n", "np_load_avg=1", "0.4", ""},
		{"three on each", "job_load_adjustments np_load_avg=0.5\n", "np_load_avg=1", "0", "fill a.q@n1=3 a.q@n2=3"},
		{"divided by processors", "job_load_adjustments np_load_avg=1\n", "np_load_avg=0.5", "0", "fill a.q@n1=3 a.q@n2=3"},
		{"another attribute", "job_load_adjustments hot=1\n", "np_load_avg=1", "0", "fill a.q@n1=4 a.q@n2=2"},
		{"switched off", "job_load_adjustments np_load_avg=0.5\nload_adjustment_decay_time 0\n", "np_load_avg=1", "0.4", "fill a.q@n1=4 a.q@n2=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := map[string]string{"np_load_avg": c.load, "num_proc": "1"}
			if c.name == "divided by processors" {
				values["num_proc"] = "4"
			}
			sc := scene{
				files: merged(queueFile("slots 4\nload_thresholds "+c.threshold+"\n"), map[string]string{
					"sched_conf": c.sched,
					"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
				}),
				load: map[string]map[string]string{"n1": values, "n2": values},
			}
			if c.name == "jobs that have just started do not count" {
				sc.before = []scheduler.Requests{{Queues: onN1}}
			}
			s := sc.make(t)
			submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "6")}))
			d := s.Run(1000)
			if got := grantText(s.Model(), d); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestHostOfferOfPreviousJobIsNotReused runs a parallel job after another one that had checked a
// different queue: free slots of that queue do not count for a job that cannot run in it.
func TestHostOfferOfPreviousJobIsNotReused(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"complexes":  "big big BOOL == YES NO 0 0\n",
		"hosts/n1":   "hostname n1\n",
		"pes/smp":    "pe_name smp\nslots 100\nallocation_rule $pe_slots\n",
		"queues/a.q": "qname a.q\nhostlist n1\nslots 1\nseq_no 1\nload_thresholds NONE\npe_list smp\ncomplex_values big=TRUE\n",
		"queues/b.q": "qname b.q\nhostlist n1\nslots 3\nseq_no 2\nload_thresholds NONE\npe_list smp\ncomplex_values big=FALSE\n",
	}), "a.q", "b.q")
	s := scheduler.NewState(m)
	submit(t, s, serialJob(t, m, 1, &scheduler.Requests{PE: "smp", Slots: slotsOf(t, "9")}))
	submit(t, s, serialJob(t, m, 2, &scheduler.Requests{PE: "smp", Slots: slotsOf(t, "2"), Hard: request("big", "FALSE")}))
	d := s.Run(1000)
	if got := grantText(m, d); len(d.Starts) != 1 || got != "smp b.q@n1=2" {
		t.Errorf("%d jobs start, in %q, want smp b.q@n1=2", len(d.Starts), got)
	}
}

// TestRangeWithinHeadroom starts a parallel job with a range of slots: it gets no more slots than
// the load thresholds allow, and its load adjustments count at once for the next job.
func TestRangeWithinHeadroom(t *testing.T) {
	values := map[string]string{"np_load_avg": "0.4", "num_proc": "1"}
	s := scene{
		files: merged(queueFile("slots 4\nload_thresholds np_load_avg=1\n"), map[string]string{
			"sched_conf": "job_load_adjustments np_load_avg=0.5\n",
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		}),
		load: map[string]map[string]string{"n1": values, "n2": values},
	}.make(t)
	submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1-8")}))
	submit(t, s, serialJob(t, s.Model(), 2, &scheduler.Requests{}))
	d := s.Run(1000)
	if got := grantText(s.Model(), d); got != "fill a.q@n1=2 a.q@n2=2" || len(d.Starts) != 1 {
		t.Errorf("%d jobs start, in %q", len(d.Starts), got)
	}
}

// TestUnsuitableInstanceStaysRefused runs several parallel jobs of a category on a host with a
// queue instance that does not suit them and one that does: none of them gets a slot in the
// unsuitable one.
func TestUnsuitableInstanceStaysRefused(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"complexes":  "big big BOOL == YES NO 0 0\n",
		"hosts/n1":   "hostname n1\n",
		"hosts/n2":   "hostname n2\n",
		"pes/smp":    "pe_name smp\nslots 100\nallocation_rule $pe_slots\n",
		"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1\nseq_no 1\nload_thresholds NONE\npe_list smp\ncomplex_values big=TRUE,[n1=big=FALSE]\n",
		"queues/b.q": "qname b.q\nhostlist n1\nslots 6\nseq_no 2\nload_thresholds NONE\npe_list smp\ncomplex_values big=TRUE\n",
	}), "a.q", "b.q")
	s := scheduler.NewState(m)
	for id := range uint32(3) {
		submit(t, s, serialJob(t, m, id+1, &scheduler.Requests{PE: "smp", Slots: slotsOf(t, "2"), Hard: request("big", "TRUE")}))
	}
	d := s.Run(1000)
	for i := range d.Starts {
		if g := d.Starts[i].Grants; len(g) != 1 || m.InstanceName(g[0].Instance) != "b.q@n1" {
			t.Errorf("job %d gets %+v", d.Starts[i].Job.ID, g)
		}
	}
	if len(d.Starts) != 3 {
		t.Errorf("%d jobs start, want 3", len(d.Starts))
	}
}

// TestHostKeepsRankOfUnsuitableInstance sets up a host whose first queue instance does not suit a
// parallel job, in a cluster queue with other instances that do: the host keeps its place in the
// order of hosts. Seeds 1795387644, 1795387678 and 1795399309 show that.
func TestHostKeepsRankOfUnsuitableInstance(t *testing.T) {
	queue := func(name, seqno, rest string) string {
		return "qname " + name + "\nhostlist n1 n2\nslots 2\nseq_no " + seqno + "\nload_thresholds NONE\n" + rest
	}
	load := map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "0.2"}}
	for name, c := range map[string]struct{ rest, want string }{
		"no environment on the host": {"pe_list fill,[n1=NONE]\n", "fill a.q@n1=1"},
		"no access on the host":      {"pe_list fill\nuser_lists NONE,[n1=staff]\n", "fill a.q@n1=1"},
		"the whole cluster queue":    {"pe_list NONE\n", "fill a.q@n1=1"},
		"on the second host":         {"pe_list fill,[n2=NONE]\n", "fill b.q@n1=1"},
		"only on the second host":    {"pe_list fill,[n1=NONE]\nuser_lists staff,[n1=NONE]\n", "fill a.q@n1=1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene{
				files: map[string]string{
					"hosts/n1": "hostname n1\n", "hosts/n2": "hostname n2\n",
					"usersets/staff": "name staff\ntype ACL\nentries bob\n",
					"pes/fill":       "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
					"queues/a.q":     queue("a.q", "20", "pe_list fill\n"),
					"queues/b.q":     queue("b.q", "10", c.rest),
					"sched_conf":     "queue_sort_method seqno\njob_load_adjustments NONE\n",
				},
				load: load,
			}.make(t)
			submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}))
			if got := grantText(s.Model(), s.Run(1000)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
