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
