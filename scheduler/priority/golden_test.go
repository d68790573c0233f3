package priority_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler/internal/golden"
	"github.com/execd-project/execd/scheduler/priority"
)

func readCase(t *testing.T, name string) *golden.Case {
	t.Helper()
	c, err := golden.Read(os.DirFS(filepath.Join("..", "testdata", "golden", name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func jobsOf(c *golden.Case, s *golden.Step) []priority.Job {
	var jobs []priority.Job
	for _, r := range s.Rows {
		jobs = append(jobs, priority.Job{
			ID: r.Job.ID, Submitted: r.Job.Submitted, Deadline: r.Job.Deadline,
			Priority: r.Job.Priority, Resources: c.Resources(r.Job),
		})
	}
	return jobs
}

// differences compares what qstat printed of a step with what is computed for a
// time.
func differences(c *golden.Case, s *golden.Step, now int64) (all []string, compared int) {
	jobs := jobsOf(c, s)
	got, _ := s.Weights().Calculate(nil, jobs, 0, now)
	check := func(r *golden.Row, o golden.Object, name, format string, v float64) {
		compared++
		if text := fmt.Sprintf(format, v); text != o[name] {
			all = append(all, fmt.Sprintf("%s: %s is %s, printed was %s", r.Job.Name, name, text, o[name]))
		}
	}
	for i, r := range s.Rows {
		p := got[i]
		for _, o := range []golden.Object{r.Pri, r.Urg} {
			check(r, o, "prior", "%.5f", p.Priority)
			check(r, o, "nurg", "%.5f", p.NormalizedUrgency)
		}
		check(r, r.Pri, "npprior", "%.5f", p.NormalizedPriority)
		check(r, r.Pri, "ntckts", "%.5f", p.NormalizedTickets)
		check(r, r.Urg, "urg", "%.0f", p.Urgency)
		check(r, r.Urg, "rrcontr", "%.0f", p.ResourceContribution)
		check(r, r.Urg, "wtcontr", "%.0f", p.WaitingTimeContribution)
		check(r, r.Urg, "dlcontr", "%.0f", p.DeadlineContribution)
		if !r.Running && r.Job.PE != "" {
			check(r, r.Urg, "slots", "%.0f", float64(c.AssumedSlots(r.Job)))
		}
		if want := strconv.Itoa(jobs[i].Priority); want != r.Pri["ppri"] {
			all = append(all, fmt.Sprintf("%s: ppri %s is read as %s", r.Job.Name, r.Pri["ppri"], want))
		}
	}
	order := golden.Order(jobs, got)
	next := 0
	for i, r := range s.Rows { // qstat prints pending jobs in the order of dispatch
		if r.Running {
			continue
		}
		for s.Rows[order[next]].Running {
			next++
		}
		if order[next] != i {
			all = append(all, fmt.Sprintf("%s is dispatched where qstat printed %s", s.Rows[order[next]].Job.Name, r.Job.Name))
		}
		next++
	}
	return all, compared
}

func TestUrgenciesOfTheRealScheduler(t *testing.T) {
	c := readCase(t, "07-urgency")
	for _, s := range c.Steps {
		bad, n := differences(c, s, math.MaxInt32) // no weight depends on the time
		t.Logf("%s: %d numbers compared", s.Name, n)
		for _, d := range bad {
			t.Errorf("%s: %s", s.Name, d)
		}
	}
}

// TestDeadlinesAndWaitingTimesOfTheRealScheduler checks that there is a moment at which all numbers
// agree. The moment of the scheduling run whose numbers qstat printed is not recorded: it lies within
// the seconds before.
func TestDeadlinesAndWaitingTimesOfTheRealScheduler(t *testing.T) {
	c := readCase(t, "08-deadline-wait")
	for _, s := range c.Steps {
		at := int64(0)
		if text, err := c.File("output", s.Name, "epoch-at-capture.txt"); err == nil {
			if at, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		from, to := at-3, at
		if at == 0 { // captured some seconds after the last submission
			for _, r := range s.Rows {
				from = max(from, r.Job.Submitted)
			}
			to = from + 12
		}
		var best []string
		found := false
		for now := from; now <= to; now++ {
			bad, n := differences(c, s, now)
			if len(bad) == 0 {
				found = true
				t.Logf("%s: %d numbers compared, %d s before the capture", s.Name, n, to-now)
			}
			if best == nil || len(bad) < len(best) {
				best = bad
			}
		}
		if !found {
			for _, d := range best {
				t.Errorf("%s: %s", s.Name, d)
			}
		}
	}
}
