package ptf

import (
	"maps"
	"math"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// Range is the range of nice values of jobs: Best is for the job that has used least of its share,
// and Worst for the one that has used most.
type Range struct{ Best, Worst int }

// The values that the kernel has (setpriority(2)).
const (
	leastNice = -20
	mostNice  = 19
)

// RangeOf returns the range of a configuration: PTF_MAX_PRIORITY and PTF_MIN_PRIORITY of
// execd_params (sge_conf(5)), by default 0 and 19. If the best is worse than the worst, both are
// the worst, as in the original.
func RangeOf(p *qconf.ExecdParams) Range {
	value := func(n, standard int) int {
		if n == qconf.PlatformPriority {
			return standard
		}
		return min(max(n, leastNice), mostNice)
	}
	r := Range{Best: value(p.PTFMaxPriority, 0), Worst: value(p.PTFMinPriority, mostNice)}
	r.Best = min(r.Best, r.Worst)
	return r
}

// Job is a running job, or a task of an array job, as far as it matters here.
type Job struct {
	ID        job.ID
	Tickets   float64
	CPU       float64 // seconds that it has used so far
	Processes int     // that it has now
	Nice      int     // that its queue gives it (queue_conf(5), priority)
	Weight    uint64  // that its group was made with; 0 for cgroup.DefaultWeight
}

// Priority is the priority of a job: the weight if its control group supports it, otherwise the
// nice value.
type Priority struct {
	Nice   int
	Weight uint64 // from 1 to 10000
}

// Table computes priorities, and remembers of each job how far it has used its share. The
// zero Table is ready.
type Table struct {
	counters map[job.ID]float64
}

// Off returns the priorities without tickets, which are those of the queues, and clears the table.
func (t *Table) Off(jobs []Job) []Priority {
	t.counters = nil
	list := make([]Priority, len(jobs))
	for i := range jobs {
		list[i] = Priority{jobs[i].Nice, defaultWeight(jobs[i].Weight)}
	}
	return list
}

func defaultWeight(w uint64) uint64 {
	if w == 0 {
		return cgroup.DefaultWeight
	}
	return min(w, cgroup.MostWeight)
}

// Compute returns the priorities of all running jobs, in their order. Call it periodically (Grid
// Engine does so every 2 seconds): each call raises the nice value of jobs with much usage. It
// forgets jobs that are no longer in the list.
func (t *Table) Compute(r Range, jobs []Job) []Priority {
	list := make([]Priority, len(jobs))
	total := 0.0
	for i := range jobs {
		total += tickets(&jobs[i])
	}
	for i, n := range t.count(jobs, total) {
		list[i].Nice = r.Best + int(float64(r.Worst-r.Best)*n)
	}
	for i, w := range weights(jobs, total) {
		list[i].Weight = w
	}
	return list
}

// tickets returns the tickets of a job as numbers that can be added up.
func tickets(j *Job) float64 {
	if j.Tickets > 0 && j.Tickets < math.MaxFloat64/(1<<32) {
		return j.Tickets
	}
	return 0
}

// count updates the counters, and returns a number for each job: 0 for the job that has used least
// of its share, 1 for the job that has used most.
//
// The share of a job is a number from 1 to 1001. Its usage is at least a second, and is weighted
// more if the job should have got more than twice its share. A new job begins with the smallest
// counter. A job without tickets has no counter, because its usage without a share would count
// against it permanently once it has tickets; while other jobs have tickets, it is treated like the
// one that has used most.
func (t *Table) count(jobs []Job, total float64) []float64 {
	shares, sum := make([]float64, len(jobs)), 0.0
	for i := range jobs {
		shares[i] = 1
		if total > 0 {
			shares[i] += 1000 * tickets(&jobs[i]) / total
		}
		sum += shares[i] * shares[i] / usage(&jobs[i])
	}
	least := math.Inf(1)
	for i := range jobs {
		if n, ok := t.counters[jobs[i].ID]; ok {
			least = min(least, n)
		}
	}
	if math.IsInf(least, 1) {
		least = 0
	}
	next := make(map[job.ID]float64, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if tickets(j) == 0 {
			continue
		}
		used := usage(j)
		proportion := shares[i] * shares[i] / used / sum
		if excess := proportion / (2 * tickets(j) / total); excess > 1 {
			used *= excess
		}
		n, ok := t.counters[j.ID]
		if !ok {
			n = least
		}
		next[j.ID] = n + used*float64(max(j.Processes, 1))/(shares[i]*shares[i])
	}
	t.counters = next
	return spread(jobs, next)
}

// spread returns the distance of each counter from the smallest one, as a fraction of the largest.
func spread(jobs []Job, counters map[job.ID]float64) []float64 {
	list := make([]float64, len(jobs))
	if len(counters) == 0 {
		return list
	}
	smallest, largest := math.Inf(1), 0.0
	for n := range maps.Values(counters) {
		smallest, largest = min(smallest, n), max(largest, n)
	}
	for i := range jobs {
		n, ok := counters[jobs[i].ID]
		switch {
		case !ok:
			list[i] = 1
		case largest > 0 && !math.IsInf(largest, 1):
			list[i] = (n - smallest) / largest
		}
	}
	return list
}

// usage returns the usage of a job in seconds, at least 1.
func usage(j *Job) float64 {
	if j.CPU > 1 && j.CPU < math.MaxInt64 {
		return j.CPU
	}
	return 1
}

// weights returns weights in proportion to the tickets. Their sum is the same as without tickets,
// cgroup.DefaultWeight for each job, so that other processes on the host keep their part; it is
// smaller if the largest weight would exceed the kernel's maximum. A job without tickets has the
// minimum. If no job has tickets, all weights are equal.
func weights(jobs []Job, total float64) []uint64 {
	list := make([]uint64, len(jobs))
	most := 0.0
	for i := range jobs {
		most = max(most, tickets(&jobs[i]))
	}
	for i := range jobs {
		list[i] = cgroup.DefaultWeight
		if total > 0 {
			one := min(cgroup.DefaultWeight*float64(len(jobs))/total, cgroup.MostWeight/most)
			list[i] = max(cgroup.LeastWeight, uint64(math.Round(one*tickets(&jobs[i]))))
		}
		list[i] = min(list[i], cgroup.MostWeight)
	}
	return list
}
