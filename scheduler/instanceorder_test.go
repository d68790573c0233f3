package scheduler_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// place is an instance in a list that is sorted again, stably, after each start.
type place struct {
	name        string
	load        float64
	seqno       int
	slots, used int
	odd         bool
	shared      int // part of the load
}

// TestOrderOfManyHosts starts so many jobs on so many hosts that nearly all of them move
// several times, and compares with a list that is simply sorted.
func TestOrderOfManyHosts(t *testing.T) {
	for _, c := range []struct {
		method  string
		bySeqno bool
		seed    uint64
		formula string
		report  bool // there is a load value of the whole cluster, which rises with each start
	}{{"load", false, 1, "np_load_avg", false}, {"seqno", true, 2, "np_load_avg", false}, {"load", false, 3, "np_load_avg+hot", true}} {
		t.Run(fmt.Sprintf("%s, %s", c.method, c.formula), func(t *testing.T) {
			random := rand.New(rand.NewPCG(c.seed, 0))
			const hosts = 700
			files := map[string]string{
				"sched_conf": "queue_sort_method " + c.method +
					"\njob_load_adjustments np_load_avg=0.25,hot=1\nload_adjustment_decay_time 1000\nload_formula " + c.formula + "\n",
				"complexes": "hot hot DOUBLE >= YES NO 0 0\n",
			}
			var list []*place
			var names, odd, seqno []string
			for n := range hosts {
				p := &place{name: fmt.Sprintf("n%03d", n), load: float64(random.IntN(3)) / 4, seqno: random.IntN(2), slots: 3, odd: random.IntN(2) == 1}
				list = append(list, p)
				files["hosts/"+p.name] = "hostname " + p.name + "\n"
				names = append(names, p.name)
				if p.seqno > 0 {
					seqno = append(seqno, fmt.Sprintf(",[%s=%d]", p.name, p.seqno))
				}
				if p.odd {
					odd = append(odd, p.name)
				}
			}
			files["hostgroups/@odd"] = "group_name @odd\nhostlist " + strings.Join(odd, " ") + "\n"
			files["queues/a.q"] = "qname a.q\nhostlist " + strings.Join(names, " ") + "\nslots 3\nload_thresholds NONE\nseq_no 0" + strings.Join(seqno, "") + "\n"
			m := modelOf(t, directory(files))
			s := scheduler.NewState(m)
			for _, p := range list {
				if err := s.SetLoad(p.name, map[string]string{"np_load_avg": fmt.Sprint(p.load)}); err != nil {
					t.Fatal(err)
				}
			}
			jobs := 1500
			if c.report {
				for _, p := range list {
					p.shared = 1
					p.load++
				}
				if err := s.SetLoad("global", map[string]string{"hot": "1"}); err != nil {
					t.Fatal(err)
				}
			}
			var only []bool
			for n := range jobs {
				r := &scheduler.Requests{}
				if only = append(only, random.IntN(3) == 0); only[n] {
					r.Queues = "a.q@@odd"
				}
				submit(t, s, serialJob(t, m, uint32(n+1), r))
			}
			d := s.Run(1000)
			for n := range jobs {
				slices.SortStableFunc(list, func(a, b *place) int {
					if c.bySeqno {
						return cmp.Or(cmp.Compare(a.seqno, b.seqno), cmp.Compare(a.load, b.load))
					}
					return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.seqno, b.seqno))
				})
				i := slices.IndexFunc(list, func(p *place) bool { return p.used < p.slots && (p.odd || !only[n]) })
				p := list[i]
				want := fmt.Sprintf("%d.1  a.q@%s=1", n+1, p.name)
				if got := startText(m, &d.Starts[n]); got != want {
					t.Fatalf("start %d is %s, want %s", n+1, got, want)
				}
				p.used++
				if p.load += 0.25; c.report {
					p.load -= float64(p.shared)
					p.shared = n + 2 // what the cluster reports, and one for each start
					p.load += float64(p.shared)
				}
			}
		})
	}
}
