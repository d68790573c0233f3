package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// TestAmountsThatCannotBeAdded starts a task whose amount cannot be added to the amount in use
// without loss: it does not start, and nothing of it is booked.
func TestAmountsThatCannotBeAdded(t *testing.T) {
	for _, reserve := range []string{"0", "1"} {
		s := scene{files: merged(hostFile("complex_values size=1e40,lic=5\n"), queueFile("slots 3,[n2=0]\ncomplex_values lic=9\n"), map[string]string{
			"complexes":    "size size DOUBLE <= YES YES 0 0\nlic lic INT <= YES YES 1 0\n",
			"hosts/global": "hostname global\ncomplex_values lic=7\n",
			"rqs":          "{\n name q\n enabled TRUE\n limit users {*} to slots=5,size=1e50\n}\n",
			"sched_conf":   "job_load_adjustments NONE\nmax_reservation " + reserve + "\n",
		}), before: []scheduler.Requests{hard("size", "1e35"), hard("size", "1e10")}}.make(t)
		w := &twin{t: t, model: s.Model(), state: s, naive: &naive{}}
		before := w.stateText(1000)
		tiny := hard("size", "1e-10")
		j := serialJob(t, s.Model(), 1, &tiny)
		n1, _ := s.Model().Instance("a.q", "n1")
		if err := s.Start(&scheduler.Running{Job: j, Task: 1, Started: 1000, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: n1, Slots: 1}}}); err == nil {
			t.Fatal("it is booked")
		}
		if after := w.stateText(1000); after != before {
			t.Errorf("after a start that failed\n%s\nwant\n%s", after, before)
		}
		submit(t, s, j)
		other := serialJob(t, s.Model(), 2, &scheduler.Requests{})
		submit(t, s, other)
		d := s.Run(1000)
		if got := startsText(d); got != "2.1" {
			t.Errorf("starts %s", got)
		}
		const why = "size: cannot add 1 times 1e-10 to 1e+35: the numbers are too different in size to be added without loss"
		if len(d.Problems) != 1 || d.Problems[0].Error() != "cannot start a task in queue instance a.q@n1: task 1.1: "+why {
			t.Errorf("problems %v", d.Problems)
		}
		reasons := texts(d.Reasons(j))
		if want := `cannot run in queue "a.q@n1" because its amounts cannot be counted with those in use: ` + why; !slices.Contains(reasons, want) {
			t.Errorf("reasons %q", reasons)
		}
		s.Dequeue(j)
		s.Dequeue(other)
		if after := w.stateText(1000); after != before {
			t.Errorf("after a run\n%s\nwant\n%s", after, before)
		}
	}
}

// TestStartInNextInstanceThatCanBeBooked runs a job whose amount cannot be added to the amounts in
// use in the best instance: it starts in the next one. A parallel job stays pending, with the
// reason.
func TestStartInNextInstanceThatCanBeBooked(t *testing.T) {
	s := scene{files: merged(hostFile("complex_values size=1e40\n"), queueFile("slots 4\nseq_no 0,[n2=1]\npe_list fill\n"), map[string]string{
		"complexes": "size size DOUBLE <= YES YES 0 0\n", "sched_conf": "job_load_adjustments NONE\nqueue_sort_method seqno\n",
		"hosts/n2": "hostname n2\ncomplex_values size=1e40\n", "pes/fill": "pe_name fill\nslots 9\nallocation_rule $pe_slots\n",
	}), before: []scheduler.Requests{hard("size", "1e35", "hostname", "n1"), hard("size", "1e10", "hostname", "n1")}}.make(t)
	m := s.Model()
	first := s.Running()[0].Grants[0].Instance
	tiny := hard("size", "1e-10")
	serial, second := serialJob(t, m, 11, &tiny), serialJob(t, m, 12, &tiny)
	tiny.PE, tiny.Slots = "fill", slotsOf(t, "2")
	tiny.Queues = m.InstanceName(first)
	parallel := serialJob(t, m, 13, &tiny)
	for _, j := range []*scheduler.Job{serial, second, parallel} {
		submit(t, s, j)
	}
	d := s.Run(1000)
	for i := range d.Starts {
		if d.Starts[i].Grants[0].Instance == first {
			t.Errorf("job %d starts where it cannot be booked", d.Starts[i].Job.ID)
		}
	}
	if got := startsText(d); got != "11.1 12.1" || len(d.Problems) != 2 {
		t.Errorf("starts %s, problems %v", got, d.Problems)
	}
	if reasons := texts(d.Reasons(parallel)); len(reasons) == 0 || !strings.Contains(reasons[len(reasons)-1], "cannot be counted") {
		t.Errorf("reasons %q", reasons)
	}
}

// TestTenthsInAdvanceReservation uses up a reservation of amounts that are no binary
// fractions, several times.
func TestTenthsInAdvanceReservation(t *testing.T) {
	s := scene{files: merged(hostFile("complex_values size=3\n"), queueFile("slots 30,[n2=0]\n"), map[string]string{
		"complexes": "size size DOUBLE <= YES YES 0 0\n", "pes/fill": "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
	})}.make(t)
	m := s.Model()
	c, err := m.Category(&scheduler.Requests{User: "alice", Group: "users", PE: "fill", Slots: slotsOf(t, "3"), Hard: setting("size", "0.1")})
	if err != nil {
		t.Fatal(err)
	}
	pe, grants, ok := s.FindReservation(c, 1000, 2000, 900)
	if !ok {
		t.Fatal("there is no place")
	}
	addReservation(t, s, &scheduler.Reservation{ID: 1, Start: 1000, End: 2000, Category: c, PE: pe, Grants: grants})
	tenth := scheduler.Requests{Reservation: 1, Hard: setting("size", "0.1")}
	for range 3 {
		for id := range uint32(4) {
			j := serialJob(t, m, id+1, &tenth)
			submit(t, s, j)
			d := s.Run(1000)
			s.Dequeue(j)
			if len(d.Starts) != 1 {
				if id != 3 {
					t.Fatalf("job %d does not start", id+1)
				}
				continue
			}
			if err := s.Start(&scheduler.Running{Job: j, Task: 1, Started: 1000, PE: scheduler.None, Grants: d.Starts[0].Grants}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.Running()); n != 3 {
			t.Errorf("%d tasks run", n)
		}
		for len(s.Running()) > 0 {
			if err := s.End(s.Running()[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPriorityByWaitingTime runs jobs with different waiting times, with positive and negative
// weights.
func TestPriorityByWaitingTime(t *testing.T) {
	for _, c := range []struct{ weights, want string }{
		{"weight_urgency 1\nweight_waiting_time 1\n", "1.1 2.1 3.1"},
		{"weight_urgency 1\nweight_waiting_time 0\n", "1.1 2.1 3.1"},
		{"weight_urgency 1\nweight_waiting_time -1\n", "3.1 2.1 1.1"},
		{"weight_urgency -1\nweight_waiting_time 1\n", "3.1 2.1 1.1"},
	} {
		s := scene{files: merged(queueFile("slots 10\n"), map[string]string{"sched_conf": c.weights})}.make(t)
		for id := range uint32(3) {
			j := serialJob(t, s.Model(), id+1, &scheduler.Requests{})
			j.Submitted = 100 + 100*int64(id)
			submit(t, s, j)
		}
		if got := startsText(s.Run(1000)); got != c.want {
			t.Errorf("with %q: %s, want %s", c.weights, got, c.want)
		}
	}
}

// TestLoadValueLimitsConsumable reports a load value for a consumable that is lower than the amount
// that the bookings leave. Only one of the jobs starts in each of two runs, because the load value
// does not fall.
func TestLoadValueLimitsConsumable(t *testing.T) {
	s := scene{files: merged(hostFile("complex_values mem=20G\n"), queueFile("slots 9,[n2=0]\n")), load: map[string]map[string]string{"n1": {"mem": "10G"}}}.make(t)
	m := s.Model()
	for id := range uint32(3) {
		eight := hard("mem", "8G")
		submit(t, s, serialJob(t, m, id+1, &eight))
	}
	for run, want := range []string{"1.1", "2.1", ""} {
		d := s.Run(1000)
		if got := startsText(d); got != want {
			t.Errorf("run %d starts %q, want %q", run+1, got, want)
		}
		for i := range d.Starts {
			x := &d.Starts[i]
			s.Dequeue(x.Job)
			if err := s.Start(&scheduler.Running{Job: x.Job, Task: 1, Started: 1000, PE: scheduler.None, Grants: x.Grants}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
