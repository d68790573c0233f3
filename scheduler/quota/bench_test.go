package quota

import (
	"fmt"
	"slices"
	"testing"

	"github.com/execd-project/execd/qconf"
)

// large returns a cluster of 10,000 hosts.
func large(t testing.TB, rules string) *Sets {
	t.Helper()
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	c := Compilation{Complexes: qconf.DefaultComplexes(), Queues: []string{"all.q", "short.q"}}
	for i := range 10000 {
		c.Hosts = append(c.Hosts, fmt.Sprintf("n%05d", i))
	}
	s, errs := Compile(quotas, c)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s
}

var benchmarks = map[string]string{
	"users {*}":               "{\nname a\nenabled TRUE\nlimit users {*} to slots=100000\n}\n",
	"users {*} hosts {*}":     "{\nname a\nenabled TRUE\nlimit users {*} hosts {*} to slots=100\n}\n",
	"dynamic":                 "{\nname a\nenabled TRUE\nlimit hosts {*} to slots=$num_proc*2\n}\n",
	"two sets of three rules": "{\nname a\nenabled TRUE\nlimit users bob to slots=1\nlimit users {*} queues short.q to slots=9\nlimit users {*} to slots=100000\n}\n{\nname b\nenabled TRUE\nlimit projects p1 to slots=9\nlimit users alice hosts n00001 to slots=9\nlimit hosts {*} to slots=100\n}\n",
}

func valuesOfBench(host int32, _ string) (float64, bool) { return float64(host%64 + 64), true }

// BenchmarkCheck measures a check at a place with usage.
func BenchmarkCheck(b *testing.B) {
	for what, rules := range benchmarks {
		b.Run(what, func(b *testing.B) {
			s := large(b, rules)
			u := s.NewUsage()
			d := s.For(Consumer{User: "alice"}).Demand(nil)
			for h := range int32(10000) {
				if err := u.Debit(d, []Grant{{Queue: 0, Host: h, Slots: 2}}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			h := int32(0)
			for b.Loop() {
				if _, ok := d.Check(u, valuesOfBench, 0, h); !ok {
					b.Fatal("it does not fit")
				}
				h = (h + 7919) % 10000
			}
		})
	}
}

func BenchmarkDebitAndCredit(b *testing.B) {
	s := large(b, benchmarks["users {*} hosts {*}"])
	u := s.NewUsage()
	d := s.For(Consumer{User: "alice"}).Demand(nil)
	grants := []Grant{{Queue: 0, Host: 17, Slots: 4}}
	b.ReportAllocs()
	for b.Loop() {
		if u.Debit(d, grants) != nil || u.Credit(d, grants) != nil {
			b.Fatal("it cannot be booked")
		}
	}
}

func BenchmarkCollector(b *testing.B) {
	s := large(b, benchmarks["two sets of three rules"])
	d := s.For(Consumer{User: "alice", PE: "mpi"}).Demand(nil)
	u := s.NewUsage()
	var c Collector
	b.ReportAllocs()
	for b.Loop() {
		c.Reset(d, u, nil)
		for h := range int32(64) {
			if n, _ := c.Left(0, h, h == 0); n < 8 {
				b.Fatal(n)
			}
			c.Take(0, h, 8)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	s := large(b, benchmarks["users {*} hosts {*}"])
	u := s.NewUsage()
	d := s.For(Consumer{User: "alice"}).Demand(nil)
	for h := range int32(10000) {
		if err := u.Debit(d, []Grant{{Queue: 0, Host: h, Slots: 2}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		u.Clone()
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		large(b, benchmarks["two sets of three rules"])
	}
}

func TestWhatIsAskedForEachPlaceDoesNotAllocate(t *testing.T) {
	for what, rules := range benchmarks {
		s := large(t, rules)
		u := s.NewUsage()
		d := s.For(Consumer{User: "alice"}).Demand(nil)
		grants := []Grant{{Queue: 1, Host: 3, Slots: 2}}
		if err := u.Debit(d, slices.Repeat(grants, 4)); err != nil {
			t.Fatal(err)
		}
		var c Collector
		var claims []Claim
		for name, f := range map[string]func(){
			"Check":            func() { d.Check(u, valuesOfBench, 1, 3) },
			"Check that fails": func() { d.Check(u, valuesOfBench, 1, 4) },
			"For":              func() { s.For(Consumer{User: "alice"}) },
			"Claims":           func() { claims = d.Claims(claims[:0], nil, valuesOfBench, 1, 3) },
			"Collector": func() {
				c.Reset(d, u, valuesOfBench)
				mark := c.Mark()
				c.Left(1, 4, true)
				c.Take(1, 4, 1)
				c.Undo(mark)
			},
			"Debit": func() {
				if u.Debit(d, grants) != nil || u.Credit(d, grants) != nil {
					t.Error("it cannot be booked")
				}
			},
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s with %s: %v allocations", name, what, n)
			}
		}
	}
}
