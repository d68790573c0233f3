package qstat

import (
	"fmt"
	"testing"
)

// manyJobs are jobs on a cluster of 1,000 queue instances, one in ten of them running.
func manyJobs(n int) *Cell {
	c := &Cell{}
	for i := range 1000 {
		c.Queues = append(c.Queues, QueueInstance{Queue: "all.q", Host: fmt.Sprintf("node%04d", i), Type: "BIP", Total: 64})
	}
	for i := range n {
		j := Job{ID: i + 1, Name: fmt.Sprintf("job%d", i), Owner: "alice", Department: "defaultdepartment", Submitted: 1_800_000_000 + int64(i)}
		task := Task{State: "qw", Slots: 1, Priority: 0.5 + float64(i%997)/2000}
		if i%10 == 0 {
			task.Phase, task.State, task.Started = Running, "r", j.Submitted+60
			task.Grants = []Grant{{Queue: c.Queues[i%1000].Name(), Slots: 1}}
		}
		j.Tasks = []Task{task}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

func BenchmarkAppendText(b *testing.B) {
	for _, view := range []struct {
		name    string
		options Options
	}{{"plain", Options{}}, {"ext", Options{Extended: true}}, {"f", Options{Full: true}}, {"gt", Options{EachSlot: true}}} {
		for _, n := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", view.name, n), func(b *testing.B) {
				c := manyJobs(n)
				dst := c.AppendText(nil, view.options)
				b.ReportAllocs()
				for b.Loop() {
					dst = c.AppendText(dst[:0], view.options)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
			})
		}
	}
}

// TestAllocations checks that a view uses memory only for its index, whatever the number of rows.
func TestAllocations(t *testing.T) {
	c := manyJobs(20_000)
	for name, o := range map[string]Options{"plain": {}, "ext": {Extended: true, Urgency: true, Priorities: true, Requests: true}} {
		dst := c.AppendText(nil, o)
		if got := testing.AllocsPerRun(3, func() { dst = c.AppendText(dst[:0], o) }); got > 1000 {
			t.Errorf("%s: %v allocations for 20,000 jobs", name, got)
		}
	}
}
