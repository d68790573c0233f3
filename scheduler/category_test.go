package scheduler_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

func setting(name, value string) []qconf.Setting {
	return []qconf.Setting{{Name: name, Value: value}}
}

// TestCategoryRefusesBadRequests checks the errors for requests that cannot be scheduled.
func TestCategoryRefusesBadRequests(t *testing.T) {
	m := scene{}.make(t).Model()
	slots := slotsOf(t, "2")
	for _, c := range []struct {
		name string
		ask  scheduler.Requests
		want string
	}{
		{"unknown", scheduler.Requests{Hard: setting("nosuch", "1")}, `unknown resource "nosuch"`},
		{"unknown, soft", scheduler.Requests{Soft: setting("nosuch", "1")}, `unknown resource "nosuch"`},
		{"slots", scheduler.Requests{Hard: setting("slots", "2")}, `"job" denied: use parallel environments instead of requesting slots explicitly`},
		{"slots by their shortcut", scheduler.Requests{Hard: setting("s", "2")}, `"job" denied: use parallel environments instead of requesting slots explicitly`},
		{"not requestable", scheduler.Requests{Hard: setting("seq_no", "2")}, `resource "seq_no" configured as non requestable`},
		{"soft consumable", scheduler.Requests{Soft: setting("lic", "2")}, `denied: soft requests on consumables like "lic" are not supported`},
		{"no value", scheduler.Requests{Hard: setting("os", "")}, `denied: missing value for resource "os"`},
		{"an instance", scheduler.Requests{Hard: setting("q", "a.q@n1")}, `Queue instance names are not allowed in -l resource requests`},
		{"no memory", scheduler.Requests{Hard: setting("mem", "1GB")}, `attribute "mem" is not a memory value`},
		{"no integer", scheduler.Requests{Hard: setting("cap", "x")}, `attribute "cap" is not a integer value`},
		{"no time", scheduler.Requests{Hard: setting("h_rt", "1:30")}, `attribute "h_rt" is not a time value`},
		{"no truth", scheduler.Requests{Hard: setting("flag", "yes")}, `attribute "flag" is not a boolean value`},
		{"no double", scheduler.Requests{Hard: setting("hot", "x")}, `attribute "hot" is not a double value`},
		{"infinite", scheduler.Requests{Hard: setting("lic", "INFINITY")}, `attribute "lic" is not a value that can be set to infinity`},
		{"negative", scheduler.Requests{Hard: setting("mem", "-1")}, `attribute "mem" is consumable but has a negative value`},
		{"expression", scheduler.Requests{Hard: setting("os", "(lx*")}, `Parse error on position 4 of the expression "(lx*".`},
		{"expression without its end", scheduler.Requests{Hard: setting("os", "lx*&")}, `Parse error on position 4 of the expression "lx*&".`},
		{"queue", scheduler.Requests{Queues: "nosuch.q"}, `Job was rejected because job requests unknown queue "nosuch.q"`},
		{"master queue", scheduler.Requests{PE: "fill", Slots: slots, MasterQueues: "a.q@n9"}, `Job was rejected because job requests unknown queue "a.q@n9"`},
		{"second queue", scheduler.Requests{Queues: "a.q,nosuch.q"}, `Job was rejected because job requests unknown queue "nosuch.q"`},
		{"environment", scheduler.Requests{PE: "x", Slots: slots}, `job rejected: the requested parallel environment "x" does not exist`},
		{"no environment matches", scheduler.Requests{PE: "x*", Slots: slots}, `job rejected: the requested parallel environment "x*" does not exist`},
		{"no slots", scheduler.Requests{PE: "fill"}, `"job" rejected: pe range must be greater than zero`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.ask.User, c.ask.Group = "alice", "users"
			category, err := m.Category(&c.ask)
			if err == nil || category != nil {
				t.Fatal("it is accepted")
			}
			var refused *scheduler.RequestError
			if !errors.As(err, &refused) {
				t.Fatalf("%T is no *RequestError", err)
			}
			if diff := cmp.Diff(c.want, refused.Text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAmbiguousUrgency requests a pattern that matches environments with different urgency_slots,
// and a range of slots.
func TestAmbiguousUrgency(t *testing.T) {
	m := scene{files: map[string]string{
		"pes/low":  "pe_name low\nslots 9\nallocation_rule $fill_up\nurgency_slots min\n",
		"pes/lots": "pe_name lots\nslots 9\nallocation_rule $fill_up\nurgency_slots max\n",
	}}.make(t).Model()
	_, err := m.Category(&scheduler.Requests{User: "alice", PE: "lo*", Slots: slotsOf(t, "2-4")})
	if err == nil || err.Error() != `"job" rejected: PEs matching wildcard and jobs slot range would cause ambiguous urgency slot amount` {
		t.Error(err)
	}
	if _, err := m.Category(&scheduler.Requests{User: "alice", PE: "lo*", Slots: slotsOf(t, "2")}); err != nil {
		t.Errorf("with one number: %v", err)
	}
}

// TestCategories says which requests are of one category, and which are not.
func TestCategories(t *testing.T) {
	plain := map[string]string{}
	quotas := map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit users {*} to slots=100\n}\n"}
	off := map[string]string{"rqs": "{\n name q\n enabled FALSE\n limit users {*} projects p1 to slots=100\n}\n"}
	projects := map[string]string{"hosts/n1": "hostname n1\nxprojects p2\n"}
	lists := map[string]string{"hosts/n1": "hostname n1\nxuser_lists staff\n"}
	base := func(change func(*scheduler.Requests)) scheduler.Requests {
		r := scheduler.Requests{User: "alice", Group: "users"}
		if change != nil {
			change(&r)
		}
		return r
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		a, b  func(*scheduler.Requests)
		same  bool
	}{
		{"equal requests", plain, nil, nil, true},
		{"users", plain, nil, func(r *scheduler.Requests) { r.User = "bob" }, true},
		{"users with quotas", quotas, nil, func(r *scheduler.Requests) { r.User = "bob" }, false},
		{"users with quotas that are off", off, nil, func(r *scheduler.Requests) { r.User = "bob" }, true},
		{"users in different lists", lists, nil, func(r *scheduler.Requests) { r.User = "bob" }, false},
		{"users in no list", lists, nil, func(r *scheduler.Requests) { r.User = "eve" }, true},
		{"projects", plain, nil, func(r *scheduler.Requests) { r.Project = "p1" }, true},
		{"projects that matter", projects, nil, func(r *scheduler.Requests) { r.Project = "p1" }, false},
		{"projects in a quota that is off", off, nil, func(r *scheduler.Requests) { r.Project = "p1" }, true},
		{"order of requests", plain, func(r *scheduler.Requests) {
			r.Hard = []qconf.Setting{{Name: "mem", Value: "1G"}, {Name: "cap", Value: "2"}}
		}, func(r *scheduler.Requests) {
			r.Hard = []qconf.Setting{{Name: "cap", Value: "2"}, {Name: "mem", Value: "1G"}}
		}, true},
		{"the last of a name", plain, func(r *scheduler.Requests) { r.Hard = setting("cap", "2") }, func(r *scheduler.Requests) {
			r.Hard = []qconf.Setting{{Name: "cap", Value: "1"}, {Name: "cap", Value: "2"}}
		}, true},
		{"shortcuts", plain, func(r *scheduler.Requests) { r.Hard = setting("hostname", "n1") }, func(r *scheduler.Requests) { r.Hard = setting("h", "n1") }, true},
		{"times", plain, func(r *scheduler.Requests) { r.Hard = setting("h_rt", "1:0:0") }, func(r *scheduler.Requests) { r.Hard = setting("h_rt", "3600") }, true},
		{"amounts", plain, func(r *scheduler.Requests) { r.Hard = setting("mem", "1G") }, func(r *scheduler.Requests) { r.Hard = setting("mem", "2G") }, false},
		{"hard and soft", plain, func(r *scheduler.Requests) { r.Hard = setting("cap", "1") }, func(r *scheduler.Requests) { r.Soft = setting("cap", "1") }, false},
		{"soft", plain, nil, func(r *scheduler.Requests) { r.Soft = setting("cap", "1") }, false},
		{"queues", plain, nil, func(r *scheduler.Requests) { r.Queues = "a.q" }, false},
		{"soft queues", plain, func(r *scheduler.Requests) { r.Queues = "a.q" }, func(r *scheduler.Requests) { r.SoftQueues = "a.q" }, false},
		{"master queues", plain, func(r *scheduler.Requests) { r.Queues = "a.q" }, func(r *scheduler.Requests) { r.MasterQueues = "a.q" }, false},
		{"ranges", plain, func(r *scheduler.Requests) { r.PE, r.Slots = "fill", slotsOf(t, "1-2") }, func(r *scheduler.Requests) { r.PE, r.Slots = "fill", slotsOf(t, "1-3") }, false},
		{"ranges in other words", plain, func(r *scheduler.Requests) { r.PE, r.Slots = "fill", slotsOf(t, "1,2,3") }, func(r *scheduler.Requests) { r.PE, r.Slots = "fill", slotsOf(t, "1-3") }, true},
		{"environments", plain, func(r *scheduler.Requests) { r.PE, r.Slots = "fill", slotsOf(t, "1") }, func(r *scheduler.Requests) { r.PE, r.Slots = "round", slotsOf(t, "1") }, false},
		{"slots of no environment", plain, nil, func(r *scheduler.Requests) { r.Slots = slotsOf(t, "4") }, true},
		{"checkpointing", plain, nil, func(r *scheduler.Requests) { r.Checkpoint = "ck" }, false},
		{"immediate", plain, nil, func(r *scheduler.Requests) { r.Immediate = true }, false},
		{"advance reservations", plain, func(r *scheduler.Requests) { r.Reservation = 1 }, func(r *scheduler.Requests) { r.Reservation = 2 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := scene{files: c.files}.make(t).Model()
			a, b := base(c.a), base(c.b)
			x, err := m.Category(&a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := m.Category(&b)
			if err != nil {
				t.Fatal(err)
			}
			if (x == y) != c.same {
				t.Errorf("one category: %t, want %t", x == y, c.same)
			}
		})
	}
}

// TestUnusedCategoriesAreRemoved submits many jobs with different requests, as happens in a master
// that runs for long. The categories of existing jobs stay, with the decisions about them.
func TestUnusedCategoriesAreRemoved(t *testing.T) {
	s := scene{files: queueFile("slots 1,[n2=0]\n")}.make(t)
	m := s.Model()
	kept := hard("cap", "1000000")
	waits, other := serialJob(t, m, 1, &kept), hard("cap", "2000000")
	submit(t, s, waits)
	d := s.Run(1000)
	want := texts(d.Reasons(waits))
	if len(want) == 0 {
		t.Fatal("no reasons")
	}
	refused := serialJob(t, m, 2, &other)
	submit(t, s, refused)
	decided := s.Run(1000) // about a category that only the decisions have in the end
	s.Dequeue(refused)
	refused.Category = nil
	const kinds = 20000
	for i := range kinds {
		ask := hard("cap", fmt.Sprint(i))
		j := serialJob(t, m, uint32(10+i), &ask)
		submit(t, s, j)
		if i%100 == 0 {
			runtime.GC()
			if reasons := decided.Reasons(j); len(reasons) > 0 {
				t.Fatalf("reasons of another job: %q", texts(reasons))
			}
		}
		s.Dequeue(j)
	}
	if known, indexes := m.Categories(); known > kinds/10 || indexes > kinds/10 {
		t.Errorf("%d categories are known, and there are %d indexes", known, indexes)
	}
	again, err := m.Category(&kept)
	if err != nil || again != waits.Category {
		t.Errorf("the requests of a job that waits are of another category, %v", err)
	}
	if diff := cmp.Diff(want, texts(d.Reasons(waits))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, texts(s.Run(1000).Reasons(waits))); diff != "" {
		t.Error(diff)
	}
}
