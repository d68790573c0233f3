package priority

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler/internal/golden"
)

func readCase(t *testing.T, name string) *golden.Case {
	t.Helper()
	c, err := golden.Read(filepath.Join("..", "testdata", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func weights(conf golden.Object) *Weights {
	return &Weights{
		Priority: conf.Number("weight_priority"), Urgency: conf.Number("weight_urgency"), Ticket: conf.Number("weight_ticket"),
		WaitingTime: conf.Number("weight_waiting_time"), Deadline: conf.Number("weight_deadline"),
		ReportPJobTickets: conf["report_pjob_tickets"] == "TRUE",
	}
}

// assumed translates the parallel environment of a job.
func assumed(t *testing.T, c *golden.Case, j *golden.Job) int {
	t.Helper()
	if j.PE == "" {
		return AssumedSlots(Min, 0, 0, nil)
	}
	pe := c.PEs[golden.Find(c.PEs, j.PE)]
	rule, fixed := Fixed, int(pe.Number("urgency_slots"))
	if i := strings.Index("minmaxavg", pe["urgency_slots"]); i >= 0 {
		rule = []Rule{Min, Max, Avg}[i/3]
	}
	var ranges []Slots
	for _, r := range j.Slots {
		s := Slots{Min: r[0], Max: r[1]}
		if s.Max == 0 {
			s.Max = Unbounded
		}
		ranges = append(ranges, s)
	}
	return AssumedSlots(rule, fixed, int(pe.Number("slots")), ranges)
}

func resources(t *testing.T, c *golden.Case, j *golden.Job) float64 {
	t.Helper()
	requests := []Request{{Urgency: SlotsUrgency, Amount: 1}}
	for _, r := range j.Requests {
		for _, x := range c.Complexes {
			if r[0] != x.Name && r[0] != x.Shortcut {
				continue
			}
			request := Request{Urgency: x.Urgency, Text: x.Text}
			if !x.Text {
				var err error
				if request.Amount, err = golden.Number(r[1]); err != nil {
					t.Fatal(err)
				}
			}
			requests = append(requests, request)
		}
	}
	return ResourceContribution(requests, assumed(t, c, j))
}

func jobsOf(t *testing.T, c *golden.Case, s *golden.Step) []Job {
	t.Helper()
	var jobs []Job
	for _, r := range s.Rows {
		jobs = append(jobs, Job{
			ID: r.Job.ID, Submitted: r.Job.Submitted, Deadline: r.Job.Deadline,
			Priority: r.Job.Priority, Resources: resources(t, c, r.Job),
		})
	}
	return jobs
}

// differences compares what qstat printed of a step with what is computed for a
// time.
func differences(t *testing.T, c *golden.Case, s *golden.Step, now int64) (all []string, compared int) {
	t.Helper()
	jobs := jobsOf(t, c, s)
	got, _ := weights(s.Conf).Calculate(nil, jobs, 0, now)
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
			check(r, r.Urg, "slots", "%.0f", float64(assumed(t, c, r.Job)))
		}
		if want := strconv.Itoa(jobs[i].Priority); want != r.Pri["ppri"] {
			all = append(all, fmt.Sprintf("%s: ppri %s is read as %s", r.Job.Name, r.Pri["ppri"], want))
		}
	}
	order := Order(nil, jobs, got)
	next := 0
	for i, r := range s.Rows { // qstat prints pending jobs in the order of dispatch
		if r.Running {
			continue
		}
		for s.Rows[order[next]].Running {
			next++
		}
		if int(order[next]) != i {
			all = append(all, fmt.Sprintf("%s is dispatched where qstat printed %s", s.Rows[order[next]].Job.Name, r.Job.Name))
		}
		next++
	}
	return all, compared
}

func TestUrgenciesOfTheRealScheduler(t *testing.T) {
	c := readCase(t, "07-urgency")
	for _, s := range c.Steps {
		bad, n := differences(t, c, s, 0)
		t.Logf("%s: %d numbers compared", s.Name, n)
		for _, d := range bad {
			t.Errorf("%s: %s", s.Name, d)
		}
	}
}

// The moment of the scheduling run whose numbers qstat printed is not recorded: it
// lies within the seconds before. There must be one at which all numbers agree.
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
			bad, n := differences(t, c, s, now)
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
