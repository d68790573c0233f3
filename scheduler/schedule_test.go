package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// TestSchedule checks the lines of the schedule file, recorded with MONITOR=1: those of suspended tasks
// come last. The host, the instance and the quota sets follow for each grant, also for two on one host.
func TestSchedule(t *testing.T) {
	queue := "\nhostlist n1 n2\nslots 2\nload_thresholds NONE\npe_list fill\ncomplex_values zz=40,qm=30\n"
	m := modelOf(t, directory(map[string]string{
		"hosts/global": "hostname global\ncomplex_values zz=100,lic=4,jc=9\n",
		"hosts/n1":     "hostname n1\ncomplex_values zz=50,slots=5,hm=20\n",
		"hosts/n2":     "hostname n2\n",
		"queues/a.q":   "qname a.q" + queue,
		"queues/b.q":   "qname b.q\nhostlist n1\nslots 2\nload_thresholds NONE\npe_list fill\n",
		"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
		"complexes": "zz zz INT <= YES YES 0 0\nqm qm INT <= YES YES 0 0\nhm hm INT <= YES YES 0 0\nlic lic INT <= YES YES 0 0\n" +
			"jc jc INT <= YES JOB 0 0\n",
		"sched_conf": "max_reservation 20\ndefault_duration 3600\nparams MONITOR=1\n",
		"rqs": "{\n name users\n enabled TRUE\n limit users {*} to slots=12,jc=8\n}\n" +
			"{\n name hosts\n enabled TRUE\n limit name big hosts {n1,n2} to zz=99,slots=9,hm=39\n}\n",
	}))
	s := scheduler.NewState(m)
	a, _ := m.Instance("a.q", "n1")
	b, _ := m.Instance("b.q", "n1")
	fill, _ := m.PE("fill")
	for i, r := range []*scheduler.Running{
		{
			Job:       serialJob(t, m, 1, &scheduler.Requests{Hard: settings(map[string]string{"lic": "1", "hm": "2", "qm": "3", "zz": "1"})}),
			Suspended: scheduler.ByUser, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: a, Slots: 1}},
		},
		{
			Job: serialJob(t, m, 2, &scheduler.Requests{
				PE: "fill", Slots: slotsOf(t, "4"), Hard: settings(map[string]string{"hm": "1", "zz": "1", "jc": "1"}),
			}),
			PE: fill, Grants: []scheduler.Grant{{Instance: b, Slots: 2}, {Instance: a, Slots: 2}},
		},
	} {
		r.Task, r.Started, r.Limit = 1, 900, int64(100*(i+1))
		if err := s.Start(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, l := range s.Run(1000).Schedule() {
		got = append(got, fmt.Sprintf("%d:%d:%s:%d:%d:%c:%s:%s:%g", l.Job, l.Task, l.State, l.Start, l.Duration, l.Level, l.Object, l.Resource, l.Amount))
	}
	if diff := cmp.Diff([]string{
		"2:1:RUNNING:900:260:P:fill:slots:4",
		"2:1:RUNNING:900:260:G:global:zz:4",
		"2:1:RUNNING:900:260:G:global:jc:1",
		"2:1:RUNNING:900:260:H:n1:zz:2",
		"2:1:RUNNING:900:260:H:n1:slots:2",
		"2:1:RUNNING:900:260:H:n1:hm:2",
		"2:1:RUNNING:900:260:Q:b.q@n1:slots:2",
		"2:1:RUNNING:900:260:L:users:alice/////:2",
		"2:1:RUNNING:900:260:L:users:alice/////:1",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"2:1:RUNNING:900:260:H:n1:zz:2",
		"2:1:RUNNING:900:260:H:n1:slots:2",
		"2:1:RUNNING:900:260:H:n1:hm:2",
		"2:1:RUNNING:900:260:Q:a.q@n1:zz:2",
		"2:1:RUNNING:900:260:Q:a.q@n1:slots:2",
		"2:1:RUNNING:900:260:L:users:alice/////:2",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"2:1:RUNNING:900:260:L:hosts:////n1/:2",
		"1:1:SUSPENDED:900:160:G:global:zz:1",
		"1:1:SUSPENDED:900:160:G:global:lic:1",
		"1:1:SUSPENDED:900:160:H:n1:zz:1",
		"1:1:SUSPENDED:900:160:H:n1:slots:1",
		"1:1:SUSPENDED:900:160:H:n1:hm:2",
		"1:1:SUSPENDED:900:160:Q:a.q@n1:zz:1",
		"1:1:SUSPENDED:900:160:Q:a.q@n1:qm:3",
		"1:1:SUSPENDED:900:160:Q:a.q@n1:slots:1",
		"1:1:SUSPENDED:900:160:L:users:alice/////:1",
		"1:1:SUSPENDED:900:160:L:hosts:////n1/:1",
		"1:1:SUSPENDED:900:160:L:hosts:////n1/:1",
		"1:1:SUSPENDED:900:160:L:hosts:////n1/:2",
	}, got); diff != "" {
		t.Errorf("lines (-Grid Engine +execd):\n%s", diff)
	}
}
