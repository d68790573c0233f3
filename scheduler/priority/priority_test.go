package priority_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler/priority"
)

func TestAssumedSlots(t *testing.T) {
	open := []priority.Slots{{Min: 4, Max: priority.Unbounded}}
	for name, c := range map[string]struct {
		rule         priority.Rule
		fixed, limit int
		ranges       []priority.Slots
		want         int
	}{
		"a serial job has one slot":                   {priority.Fixed, 7, 100, nil, 1},
		"one number is that number":                   {priority.Fixed, 7, 100, []priority.Slots{{Min: 4, Max: 4}}, 4},
		"a fixed number is that of the environment":   {priority.Fixed, 7, 100, open, 7},
		"the smallest number is the first":            {priority.Min, 0, 100, open, 4},
		"an open range ends at the slots":             {priority.Max, 0, 100, open, 100},
		"an open range beyond the slots is a number":  {priority.Max, 0, 2, open, 4},
		"a closed range may exceed the slots":         {priority.Max, 0, 2, []priority.Slots{{Min: 4, Max: 9}}, 9},
		"the average counts each number":              {priority.Avg, 0, 100, []priority.Slots{{Min: 2, Max: 4}, {Min: 8, Max: 8}, {Min: 10, Max: 12}}, 7},
		"the average of an open range ends at slots":  {priority.Avg, 0, 8, open, 6},
		"the average has no numbers above the slots":  {priority.Avg, 0, 5, []priority.Slots{{Min: 4, Max: 8}}, 4},
		"the average of some numbers above the slots": {priority.Avg, 0, 5, []priority.Slots{{Min: 2, Max: 2}, {Min: 4, Max: 12}}, 3},
		"the average of what is above the slots is 0": {priority.Avg, 0, 5, []priority.Slots{{Min: 6, Max: 8}}, 0},
		"the average of an open range above is 0":     {priority.Avg, 0, 5, []priority.Slots{{Min: 6, Max: priority.Unbounded}}, 0},
		"one number above the slots is that number":   {priority.Avg, 0, 5, []priority.Slots{{Min: 7, Max: 7}}, 7},
		"the average of a range without end is quick": {priority.Avg, 0, math.MaxInt32, open, 1 << 30},
	} {
		got := priority.AssumedSlots(c.rule, c.fixed, c.limit, c.ranges)
		if c.want == 1<<30 {
			if got < 1<<30-8 || got > 1<<30+8 {
				t.Errorf("%s: %d", name, got)
			}
		} else if got != c.want {
			t.Errorf("%s: %d, expected %d", name, got, c.want)
		}
	}
}

func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		deadline int64
		want     float64
	}{
		"no deadline":               {0, 0},
		"far away":                  {1100, 36},
		"two seconds left":          {1002, 1800},
		"the last second":           {1001, 3600},
		"at the deadline":           {1000, 3600},
		"long after it, no further": {10, 3600},
	} {
		if got := priority.DeadlineContribution(3600, c.deadline, 1000); got != c.want {
			t.Errorf("%s: %g, expected %g", name, got, c.want)
		}
	}
}

func TestNormalisation(t *testing.T) {
	all := priority.Weights{Priority: 1, Urgency: 1, Ticket: 1, ReportPJobTickets: true}
	hidden := priority.Weights{Ticket: 1}
	for name, c := range map[string]struct {
		weights   priority.Weights
		resources []float64
		tickets   []float64
		urgency   []float64
		ntckts    []float64
	}{
		"one job is in the middle":                    {all, []float64{1000}, []float64{0}, []float64{0.5}, []float64{0.5}},
		"equal urgencies are in the middle":           {all, []float64{7, 7}, []float64{1, 2}, []float64{0.5, 0.5}, []float64{0.5, 1}},
		"nearly equal urgencies are equal":            {all, []float64{7, 7.000009}, []float64{0, 0}, []float64{0.5, 0.5}, []float64{0.5, 0.5}},
		"from the smallest to the largest":            {all, []float64{1, 2, 5}, []float64{4, 1, 0}, []float64{0, 0.25, 1}, []float64{1, 0.25, 0}},
		"where all are negative the scale ends at 0":  {all, []float64{-8, -4}, []float64{0, 0}, []float64{0, 0.5}, []float64{0.5, 0.5}},
		"one negative urgency is the smallest":        {all, []float64{-8}, []float64{3}, []float64{0}, []float64{1}},
		"what nobody sees and asks for is not looked": {hidden, []float64{1, 5}, []float64{1, 4}, []float64{0.5, 0.5}, []float64{0.25, 1}},
	} {
		var jobs []priority.Job
		for i := range c.resources {
			jobs = append(jobs, priority.Job{ID: uint32(i), Resources: c.resources[i], Tickets: c.tickets[i], Priority: -1024})
		}
		got, bounds := c.weights.Calculate(nil, jobs, slices.Max(c.tickets), 0)
		for i, p := range got {
			if p.NormalizedUrgency != c.urgency[i] || p.NormalizedTickets != c.ntckts[i] {
				t.Errorf("%s: job %d has %g and %g, expected %g and %g", name, i, p.NormalizedUrgency, p.NormalizedTickets, c.urgency[i], c.ntckts[i])
			}
			if c.weights.Priority == 0 && p.NormalizedPriority != 0.5 {
				t.Errorf("%s: POSIX priority %g is looked at", name, p.NormalizedPriority)
			}
			if one := c.weights.One(&jobs[i], &bounds, 0); one != p {
				t.Errorf("%s: alone job %d has %+v, among others %+v", name, i, one, p)
			}
		}
	}
}

func drawJobs(t *rapid.T) []priority.Job {
	jobs := make([]priority.Job, rapid.IntRange(1, 40).Draw(t, "jobs"))
	for i := range jobs {
		jobs[i] = priority.Job{
			ID: uint32(i / 3), Task: uint32(i % 3), Submitted: rapid.Int64Range(0, 3).Draw(t, "submitted"),
			Priority: rapid.IntRange(-1023, 1024).Draw(t, "priority"), Resources: rapid.Float64Range(-1e6, 1e6).Draw(t, "resources"),
			Tickets: rapid.SampledFrom([]float64{0, 1, 1, 5, 1e6}).Draw(t, "tickets"), Deadline: rapid.SampledFrom([]int64{0, 0, 5, 50}).Draw(t, "deadline"),
		}
		if rapid.Bool().Draw(t, "plain") {
			jobs[i].Priority, jobs[i].Resources = 0, 1000
		}
	}
	return jobs
}

func TestNormalisedValuesAreFromZeroToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &priority.Weights{Priority: 1, Urgency: 1, Ticket: 1, ReportPJobTickets: true, Deadline: 3.6e6}
		got, _ := w.Calculate(nil, drawJobs(t), 1e6, 20)
		for _, p := range got {
			for _, v := range []float64{p.NormalizedPriority, p.NormalizedUrgency, p.NormalizedTickets} {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

func BenchmarkCalculate(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("%d jobs", n), func(b *testing.B) {
			jobs := make([]priority.Job, n)
			for i := range jobs {
				jobs[i] = priority.Job{ID: uint32(i), Submitted: int64(i / 10), Resources: float64(i * 7919 % 1000), Tickets: float64(i * 104729 % 5000)}
			}
			w := &priority.Weights{Priority: 1, Urgency: 0.1, Ticket: 0.5, WaitingTime: 0.1, ReportPJobTickets: true}
			var priorities []priority.Priority
			b.ReportAllocs()
			for b.Loop() {
				priorities, _ = w.Calculate(priorities, jobs, 5000, int64(n))
			}
		})
	}
}
