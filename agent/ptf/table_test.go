package ptf

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

var usual = Range{Best: 0, Worst: 19}

func id(n int) job.ID { return job.ID{Job: n} }

func TestRangeOf(t *testing.T) {
	const unset = qconf.PlatformPriority
	for name, c := range map[string]struct {
		least, most int // PTF_MIN_PRIORITY, PTF_MAX_PRIORITY
		want        Range
	}{
		"nothing set":             {unset, unset, Range{0, 19}},
		"both set":                {10, -5, Range{-5, 10}},
		"beyond the kernel's":     {20, -100, Range{-20, 19}},
		"the best worse":          {3, 7, Range{3, 3}},
		"the best is the default": {-4, unset, Range{-4, -4}},
	} {
		if got := RangeOf(&qconf.ExecdParams{PTFMinPriority: c.least, PTFMaxPriority: c.most}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestNiceValues follows the original's formula by hand. With tickets 3 and 1 the shares
// are 751 and 251.
func TestNiceValues(t *testing.T) {
	jobs := []Job{{ID: id(1), Tickets: 300, CPU: 75, Processes: 1}, {ID: id(2), Tickets: 100, CPU: 25, Processes: 1}}
	var table Table
	// 75/751² = 0.000133 and 25/251² = 0.000397: the second is (0.000397-0.000133)/0.000397
	// = 0.665 of the way.
	want := []int{0, 12}
	nices := func(list []Priority) (n []int) {
		for _, p := range list {
			n = append(n, p.Nice)
		}
		return n
	}
	if got := nices(table.Compute(usual, jobs)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// Processes count: 4 of them use up the share of the first four times as fast. The
	// counters are now 0.000133+4*0.000133 and 2*0.000397.
	jobs[0].Processes = 4
	if got := nices(table.Compute(usual, jobs)); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("with more processes %v", got)
	}
	// A new job begins where the best one is.
	jobs = append(jobs, Job{ID: id(3), Tickets: 100, Processes: 1})
	if got := nices(table.Compute(usual, jobs)); got[2] > got[0] || got[2] > got[1] {
		t.Errorf("a new job is worse than others: %v", got)
	}
	// One that has gone and come back is new.
	table.Compute(usual, jobs[1:])
	if _, ok := table.counters[id(1)]; ok {
		t.Error("a job that has ended is remembered")
	}
}

// TestIdleJobCannotSaveUpUsage computes the priorities of an idle job with few tickets. The share
// that it could use counts as used, so that it cannot save it up for later.
func TestIdleJobCannotSaveUpUsage(t *testing.T) {
	jobs := []Job{{ID: id(1), Tickets: 100, CPU: 1e6}, {ID: id(2), Tickets: 100, CPU: 1}, {ID: id(3), Tickets: 200, CPU: 1e6}}
	var table Table
	table.Compute(usual, jobs)
	// p of the second is 251²/1 of 251²/1 + 251²/1e6 + 501²/1e6, practically 1: twice a share
	// of a quarter, two times over.
	if got, want := table.counters[id(2)]*251*251, 2.0; math.Abs(got-want) > 0.01 {
		t.Errorf("it has used %v, want %v", got, want)
	}
}

func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		tickets []float64
		want    []uint64
	}{
		"one job":                {[]float64{7}, []uint64{100}},
		"equal":                  {[]float64{5, 5}, []uint64{100, 100}},
		"three to one":           {[]float64{300, 100}, []uint64{150, 50}},
		"no tickets at all":      {[]float64{0, 0}, []uint64{100, 100}},
		"one without":            {[]float64{100, 0}, []uint64{200, 1}},
		"more than can be":       {append(slices.Repeat([]float64{1}, 199), 1e9), append(slices.Repeat([]uint64{1}, 199), 10000)},
		"what is not a number":   {[]float64{math.NaN(), 100, math.Inf(1), -5}, []uint64{1, 400, 1, 1}},
		"the largest there are":  {[]float64{math.MaxFloat64, 100}, []uint64{1, 200}},
		"small ones keep apart":  {[]float64{1, 2, 397}, []uint64{1, 2, 298}},
		"nobody":                 {nil, []uint64{}},
		"far apart, scaled down": {append([]float64{1e6, 5e5}, slices.Repeat([]float64{0}, 300)...), append([]uint64{10000, 5000}, slices.Repeat([]uint64{1}, 300)...)},
	} {
		var jobs []Job
		for i, n := range c.tickets {
			jobs = append(jobs, Job{ID: id(i), Tickets: n})
		}
		got := []uint64{}
		for _, p := range new(Table).Compute(usual, jobs) {
			got = append(got, p.Weight)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestOff leaves to the queues what jobs are.
func TestOff(t *testing.T) {
	jobs := []Job{{ID: id(1), Tickets: 300, CPU: 75, Nice: 7, Weight: 400}, {ID: id(2), Nice: -3}}
	var table Table
	table.Compute(usual, jobs)
	if diff := cmp.Diff([]Priority{{7, 400}, {-3, cgroup.DefaultWeight}}, table.Off(jobs)); diff != "" {
		t.Error(diff)
	}
	if table.counters != nil {
		t.Error("something is remembered")
	}
}

// TestPrioritiesOfAnything checks for any set of jobs that priorities are in their ranges, that the
// job with most tickets has the best priority, that weights have the order of the tickets, and that
// equal input gives equal output.
func TestPrioritiesOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Range{Best: rapid.IntRange(-20, 19).Draw(t, "best")}
		r.Worst = rapid.IntRange(r.Best, 19).Draw(t, "worst")
		number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}))
		var first, second Table
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			var jobs []Job
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 12, rapid.ID).Draw(t, "jobs") {
				jobs = append(jobs, Job{
					ID: id(n), Tickets: number.Draw(t, "tickets"), CPU: number.Draw(t, "cpu"), Processes: rapid.IntRange(-1, 100).Draw(t, "processes"),
				})
			}
			list := first.Compute(r, jobs)
			if diff := cmp.Diff(list, second.Compute(r, jobs)); diff != "" {
				t.Fatal(diff)
			}
			best := false
			for i, p := range list {
				if p.Nice < r.Best || p.Nice > r.Worst || p.Weight < cgroup.LeastWeight || p.Weight > cgroup.MostWeight {
					t.Fatalf("%+v has %+v", jobs[i], p)
				}
				best = best || p.Nice == r.Best
				for k, q := range list {
					if tickets(&jobs[i]) > tickets(&jobs[k]) && p.Weight < q.Weight {
						t.Fatalf("%+v has %+v, and %+v has %+v", jobs[i], p, jobs[k], q)
					}
				}
			}
			if len(jobs) > 0 && !best {
				t.Fatalf("nobody has the best nice value: %+v", list)
			}
		}
	})
}

// TestSharesAreKept lets two busy jobs run against a model of the scheduler, where the
// share of a nice value falls by a quarter with each step: in the long run each gets what
// its tickets say, within what the range of nice values can do.
func TestSharesAreKept(t *testing.T) {
	jobs := []Job{{ID: id(1), Tickets: 300, Processes: 1}, {ID: id(2), Tickets: 100, Processes: 1}}
	var table Table
	for range 2000 {
		list := table.Compute(usual, jobs)
		weight := func(i int) float64 { return math.Pow(1.25, -float64(list[i].Nice)) }
		for i := range jobs {
			jobs[i].CPU += 2 * weight(i) / (weight(0) + weight(1))
		}
	}
	if part := jobs[0].CPU / (jobs[0].CPU + jobs[1].CPU); part < 0.65 || part > 0.95 {
		t.Errorf("the job with three quarters of the tickets got %.2f", part)
	}
}

// TestTicketsThatComeLater checks that the usage of a job from before it received tickets does not
// lower its priority.
func TestTicketsThatComeLater(t *testing.T) {
	var table Table
	r := Range{Best: 0, Worst: 19}
	jobs := []Job{{ID: job.ID{Job: 1}, CPU: 10}, {ID: job.ID{Job: 2}, CPU: 10}}
	for range 5 {
		if got := table.Compute(r, jobs); got[0].Nice != got[1].Nice {
			t.Fatalf("nobody has tickets: %+v", got)
		}
	}
	jobs[0].Tickets = 100
	if got := table.Compute(r, jobs); got[0].Nice != r.Best || got[1].Nice != r.Worst {
		t.Errorf("one has tickets: %+v", got)
	}
	jobs[1].Tickets = 900
	if got := table.Compute(r, jobs); got[0].Nice <= got[1].Nice {
		t.Errorf("the other has more: %+v", got)
	}
}
