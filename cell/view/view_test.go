package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/submit"
)

// byName are the queue instances of a view.
func byName(m *master, s view.Selection) map[string]qstat.QueueInstance {
	all := map[string]qstat.QueueInstance{}
	for _, q := range m.view().Queues(s) {
		all[q.Name()] = q
	}
	return all
}

func TestStatesOfQueueInstances(t *testing.T) {
	m := newMaster(t)
	if _, err := m.HostLost(m.now, "n2"); err != nil {
		t.Fatal(err)
	}
	m.ModifyQueues(m.now, caller("root"), cell.SuspendQueue, []string{"a.q"}, false)
	m.ModifyQueues(m.now, caller("root"), cell.DisableQueue, []string{"a.q@n2"}, false)
	all := byName(m, nil)
	for name, want := range map[string]string{"a.q@n1": "s", "a.q@n2": "dus", "b.q@n3": ""} {
		if got := all[name].State; got != want {
			t.Errorf("%s is in the state %q, not %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"a.q@n1": "BIPC", "b.q@n3": "B"} {
		if got := all[name].Type; got != want {
			t.Errorf("%s is of the type %q, not %q", name, got, want)
		}
	}
}

func TestSelectedResources(t *testing.T) {
	m := newMaster(t)
	if _, err := m.HostReport(m.now, "n1", map[string]string{"mem": "1G", "arch": "lx-amd64"}); err != nil {
		t.Fatal(err)
	}
	m.qsub("-b y -q a.q@n1 -l lic=3 x")
	m.run()
	for _, c := range []struct {
		s    view.Selection
		want []qstat.Resource
	}{
		{view.None, nil},
		{view.Selection{"lic", "mem"}, []qstat.Resource{{Dominance: "gc", Name: "lic", Value: "5", Total: 8}, {Dominance: "hl", Name: "mem", Value: "1.000G"}}},
	} {
		if diff := cmp.Diff(c.want, byName(m, c.s)["a.q@n1"].Resources); diff != "" {
			t.Errorf("%v: %s", c.s, diff)
		}
	}
	q := byName(m, view.None)["a.q@n1"]
	if q.Used != 1 || q.Total != 4 {
		t.Errorf("%+v", q)
	}
	hosts := m.view().Hosts(view.Selection{"lic"})
	if len(hosts) != 4 || hosts[0].Name != "global" || len(hosts[0].Resources) != 1 || hosts[0].Resources[0].Value != "5.000000" {
		t.Errorf("%+v", hosts)
	}
}

// TestSlotsOfReservations checks that qhost counts a slot once if several reservations have it at
// different times.
func TestSlotsOfReservations(t *testing.T) {
	m := newMaster(t)
	for _, line := range [][]string{
		{"-a", "203001010000", "-d", "100", "-q", "a.q@n1"},
		{"-a", "203001010001.40", "-d", "100", "-q", "a.q@n1"},
		{"-a", "203001010000.50", "-d", "10", "-q", "a.q@n1"},
		{"-d", "60", "-q", "b.q", "-N", "now", "-u", "bob,!carol", "-m", "b", "-M", "x@y,z"},
	} {
		r, err := submit.ParseReservation(submit.Input{Args: line})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Reserve(m.now, caller("root"), r); err != nil {
			t.Fatal(err)
		}
	}
	all := byName(m, nil)
	if q := all["a.q@n1"]; q.Reserved != 0 || q.ReservedMax != 2 {
		t.Errorf("%d now, %d at most", q.Reserved, q.ReservedMax)
	}
	if q := all["b.q@n3"]; q.Reserved != 1 || q.ReservedMax != 1 {
		t.Errorf("%d now, %d at most", q.Reserved, q.ReservedMax)
	}
	r := m.view().Reservations()[3]
	want := qstat.Reservation{
		ID: 4, Name: "now", Owner: "root", Group: "root", Account: "sge", State: "r", Submitted: m.now, Start: m.now, End: m.now + 60, Duration: 60,
		Users: []string{"bob"}, ExcludedUsers: []string{"carol"}, MailOptions: "b", MailList: []qstat.Mail{{User: "x", Host: "y"}, {User: "z"}},
		Grants: []qstat.Grant{{Queue: "b.q@n3", Slots: 1}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// TestParallelTasks checks a parallel job whose environment controls its slaves: each grant has its
// part of the tickets, and the master need not have one of the slots.
func TestParallelTasks(t *testing.T) {
	m := newMaster(t)
	m.qsub("-b y -pe fill 6 -binding linear x")
	m.qsub("-b y -t 1-3 -tc 1 x")
	m.run()
	jobs := m.view().Jobs()
	task := jobs[0].Tasks[0]
	slots := 0
	for _, g := range task.Grants {
		slots += g.Slots
		if g.Tickets == nil {
			t.Errorf("the grant at %s has no tickets", g.Queue)
		}
	}
	if slots != 6 || len(task.Grants) != 2 || task.GrantedPE != "fill" || !task.ExtraMaster || task.State != "r" {
		t.Errorf("%+v", task)
	}
	if jobs[0].Binding != "set linear:slots" {
		t.Errorf("the binding is %q", jobs[0].Binding)
	}
	if got := jobs[1].Tasks; len(got) != 2 || got[0].Phase != qstat.Running || got[1].Phase != qstat.Pending ||
		!cmp.Equal(got[1].IDs, []qstat.Range{{First: 2, Last: 3, Step: 1}}) {
		t.Errorf("%+v", got)
	}
	info := m.view().SchedulingInfo(m.Job(2))
	if len(info) != 2 || !info[0].Shared || info[1].Shared || info[1].Number != 45 {
		t.Errorf("%+v", info)
	}
}
