package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
)

// TestOptionsOfQquota compares with what the original's qquota printed for alice, whose
// primary group is alice, with all kinds of filters and options.
func TestOptionsOfQquota(t *testing.T) {
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(read(t, "testdata", "qquota", "rqs")))
	if err != nil {
		t.Fatal(err)
	}
	c := Compilation{
		Complexes: qconf.DefaultComplexes(), Queues: []string{"a.q", "b.q"}, Hosts: []string{"n1", "n2", "n3", "n4"},
		UserSets: []*qconf.UserSet{{Name: "staff", Users: []string{"alice", "bob"}}, {Name: "grp", UserGroups: []string{"alice"}}},
		Groups: func(host string) []string {
			if host == "n1" || host == "n2" {
				return []string{"@big"}
			}
			return nil
		},
	}
	s, errs := Compile(quotas, c)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	r := &recorded{sets: s, queues: c.Queues, hosts: c.Hosts}
	u := s.NewUsage()
	for _, j := range []struct {
		user, project, pe, queue string
		hosts                    string
	}{
		{"alice", "", "", "a.q", "n1"},
		{"alice", "p1", "", "a.q", "n2"},
		{"bob", "p2", "", "b.q", "n3"},
		{"carol", "", "rr", "b.q", "n1 n2 n3"},
		{"dave", "", "", "b.q", "n4"},
		{"erin", "p1", "rr", "a.q", "n1 n1"},
	} {
		var grants []Grant
		for h := range strings.FieldsSeq(j.hosts) {
			grants = append(grants, Grant{int32(slices.Index(c.Queues, j.queue)), int32(slices.Index(c.Hosts, h)), 1})
		}
		d := s.For(Consumer{User: j.user, Group: "alice", Project: j.project, PE: j.pe}).Demand(nil)
		if err := u.Debit(d, grants); err != nil {
			t.Fatal(err)
		}
	}
	calls := strings.Split(read(t, "testdata", "qquota", "output"), "$ qquota")[1:]
	if len(calls) < 50 {
		t.Errorf("only %d calls were recorded", len(calls))
	}
	for _, text := range calls {
		options, want, _ := strings.Cut(text, "\n")
		if diff := cmp.Diff(want, r.qquota(u, selection(t, options))); diff != "" {
			t.Errorf("qquota%s:\n%s", options, diff)
		}
	}
}

// TestSeveralOptionsOfQquota checks that rows are in the order of the options, the users first, and
// that no matching row is left out.
func TestSeveralOptionsOfQquota(t *testing.T) {
	s := newSite(t, oneSet("m", "users {*} queues {*} hosts {*} to slots=9"))
	u := s.NewUsage()
	for _, user := range []string{"alice", "bob"} {
		d := s.For(who(user)).Demand(nil)
		for q := range int32(2) {
			if err := u.Debit(d, []Grant{{q, 0, 1}, {q, 2, 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for options, want := range map[string]string{
		"-u bob,alice -h n3,n1":            "bob a.q n3, bob b.q n3, bob a.q n1, bob b.q n1, alice a.q n3, alice b.q n3, alice a.q n1, alice b.q n1",
		"-u * -q b.q,a.q -h n3,n1":         "alice b.q n3, bob b.q n3, alice b.q n1, bob b.q n1, alice a.q n3, bob a.q n3, alice a.q n1, bob a.q n1",
		"-q a.q,b.q,*":                     "alice a.q n1, alice a.q n3, alice b.q n1, alice b.q n3",
		"-u @nosuch":                       "",
		"-u * -h n2":                       "",
		"-u bob -h N3.elsewhere -q [!a].q": "bob b.q n3",
	} {
		var rows []string
		for _, r := range u.List(selection(t, options), nil) {
			f := strings.Fields(r.Filter)
			rows = append(rows, f[1]+" "+f[3]+" "+f[5])
		}
		if got := strings.Join(rows, ", "); got != want {
			t.Errorf("%s: %s, want %s", options, got, want)
		}
	}
}

// selection are the options of a call by alice.
func selection(t *testing.T, options string) Selection {
	t.Helper()
	s := Selection{Users: []string{"alice"}}
	w := strings.Fields(options)
	for i := 0; i+1 < len(w); i += 2 {
		list := strings.Split(w[i+1], ",")
		switch w[i] {
		case "-u":
			s.Users = list
		case "-P":
			s.Projects = list
		case "-pe":
			s.PEs = list
		case "-q":
			s.Queues = list
		case "-h":
			s.Hosts = list
		case "-l":
			s.Resources = list
		default:
			t.Fatal(fmt.Errorf("the option %s is not known here", w[i]))
		}
	}
	return s
}
