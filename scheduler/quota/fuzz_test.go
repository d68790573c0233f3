package quota

import (
	"testing"

	"github.com/execd-project/execd/qconf"
)

// FuzzRules checks for any rules that no function panics, and that everything that was debited can be
// credited.
func FuzzRules(f *testing.F) {
	f.Add(oneSet("s", "users {*} hosts {@odd,!n3} to slots=$num_proc*2,lic=1,excl=TRUE"), "alice", "p1", "rr", uint8(0), uint8(1), "lic=1")
	f.Add(oneSet("s", "projects !*,p[1 queues {!b.q} to os=l*,mem=4G,jlic=2"), "bob", "", "", uint8(1), uint8(9), "")
	f.Add(read(f, cases, "05-rqs-expanded", "input", "rqs"), "@staff", "*", "[", uint8(1), uint8(2), "")
	c := compilation(f)
	f.Fuzz(func(t *testing.T, text, user, project, pe string, queue, host uint8, option string) {
		quotas, err := qconf.ParseResourceQuotas("rqs", []byte(text))
		if err != nil {
			return
		}
		s, _ := Compile(quotas, c)
		values := func(h int32, _ string) (float64, bool) { return float64(h), h > 0 }
		d := s.For(Consumer{User: user, Project: project, PE: pe}).Demand(nil)
		u := s.NewUsage()
		grants := []Grant{{int32(queue), int32(host), 2}, {0, 0, 1}}
		for _, used := range []*Usage{nil, u} {
			if f, ok := d.Check(used, values, int32(queue), int32(host)); ok != (f.Text() == "") {
				t.Fatalf("it fits: %v, %s", ok, f.Text())
			}
		}
		for rule, key := range d.Applicable().Matches(int32(queue), int32(host)) {
			if rule == "" || key == "" {
				t.Fatalf("a rule %q, a key %q", rule, key)
			}
		}
		var collector Collector
		collector.Reset(d, u, values)
		before, _ := collector.Left(0, 0, true)
		collector.Take(0, 0, 1)
		collector.Undo(0)
		if after, _ := collector.Left(0, 0, true); after != before {
			t.Fatalf("%d slots were left, and then %d", before, after)
		}
		if u.Debit(d, grants) != nil {
			return
		}
		for _, row := range u.List(Selection{Users: []string{option}, Hosts: []string{option}, Queues: []string{option}}, values) {
			if row.Rule == "" || row.LimitText() == "" || row.Filter == "" {
				t.Fatalf("%+v", row)
			}
		}
		if err := u.Credit(d, grants); err != nil || !u.IsEmpty() {
			t.Fatalf("something is left: %v", err)
		}
	})
}
