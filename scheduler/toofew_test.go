package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// TestTooFewCountsFreeSlots checks the number of slots from which on no instance is checked.
func TestTooFewCountsFreeSlots(t *testing.T) {
	s := fourHosts(t, "job_load_adjustments NONE", "0.1 0.2 0.3 0.4") // 32 slots
	s.SetStatus(7, scheduler.DisabledByUser)
	begin(t, s, 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3")})
	for slots, want := range map[int]bool{25: false, 26: true} {
		start, reserve, explain := s.TooFew(1000, slots)
		if start != want || reserve || explain {
			t.Errorf("%d slots: %t to start, %t to reserve, %t to explain; want %t, false, false", slots, start, reserve, explain, want)
		}
	}
}

// begin starts a job at once.
func begin(t *testing.T, s *scheduler.State, id uint32, r *scheduler.Requests) {
	t.Helper()
	j := serialJob(t, s.Model(), id, r)
	submit(t, s, j)
	d := s.Run(1000)
	if len(d.Starts) != 1 {
		t.Fatalf("%d starts", len(d.Starts))
	}
	s.Dequeue(j)
	task := scheduler.Running{Job: j, Task: 1, Started: 1000, PE: d.Starts[0].PE, Grants: d.Starts[0].Grants, Limit: 100}
	if err := s.Start(&task); err != nil {
		t.Fatal(err)
	}
}

// TestTooFewSlots checks jobs that request more slots than are free, for which no instance is
// checked. The results are the same as with a check: such a job stays pending with a reason, gets a
// reservation, and does not affect later jobs.
func TestTooFewSlots(t *testing.T) {
	for _, c := range []struct {
		name, before string
		jobs         []string // slots, - for a serial job, with R behind them for -R y
		want         string   // starts, and reservations with their times
	}{
		{"too many", "", []string{"33", "32"}, "2"},
		{"as many as there are", "", []string{"32", "1"}, "1"},
		{"starts count", "", []string{"30", "3", "2", "1"}, "1 3"},
		{"serial starts count, too", "", []string{"-", "32", "31"}, "1 3"},
		{"what runs counts", "30", []string{"3", "2"}, "2"},
		{"the smallest of a range counts", "30", []string{"3-5", "1-9"}, "2"},
		{"later there are enough", "30", []string{"3R"}, "1@1160"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fourHosts(t, "job_load_adjustments NONE\nmax_reservation 1\ndefault_duration 100", "0.1 0.2 0.3 0.4")
			if c.before != "" {
				begin(t, s, 1000, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, c.before)})
			}
			submitAll(t, s, c.jobs)
			if diff := cmp.Diff(c.want, decided(s.Run(1000))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// submitAll submits jobs, described as in TestTooFewSlots.
func submitAll(t *testing.T, s *scheduler.State, jobs []string) {
	t.Helper()
	for i, slots := range jobs {
		slots, reserve := strings.CutSuffix(slots, "R")
		r := &scheduler.Requests{}
		if slots != "-" {
			r.PE, r.Slots = "fill", slotsOf(t, slots)
		}
		j := serialJob(t, s.Model(), uint32(i+1), r)
		j.Reserve = reserve
		submit(t, s, j)
	}
}

// decided are the jobs that start, and those with reservations with their times.
func decided(d *scheduler.Decisions) string {
	var jobs []string
	for i := range d.Starts {
		jobs = append(jobs, fmt.Sprint(d.Starts[i].Job.ID))
	}
	for i := range d.Reservations {
		jobs = append(jobs, fmt.Sprintf("%d@%d", d.Reservations[i].Job.ID, d.Reservations[i].At))
	}
	return strings.Join(jobs, " ")
}

// TestTooFewCountsRestoredSlots sets up slots that the first job makes unavailable, because it puts its
// host into load alarm, and that are restored for the first job that may reserve. The second job
// finds three slots, and the fourth one four.
func TestTooFewCountsRestoredSlots(t *testing.T) {
	s := scene{
		files: map[string]string{
			"queues/a.q": "qname a.q\nhostlist n1 n2 n3\nslots 1,[n1=3]\nload_thresholds np_load_avg=0.4\npe_list fill\n",
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
			"hosts/n3":   "hostname n3\n",
			"sched_conf": "weight_urgency 0\njob_load_adjustments np_load_avg=0.5\nmax_reservation 1\n",
		},
		load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "0.2"}, "n3": {"np_load_avg": "0.3"}},
	}.make(t)
	submitAll(t, s, []string{"-", "3", "9R", "3-8"})
	if got, want := decided(s.Run(1000)), "1 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTooFewSlotsAreExplained checks that instances are checked to explain why a job is pending.
func TestTooFewSlotsAreExplained(t *testing.T) {
	s := fourHosts(t, "job_load_adjustments NONE", "0.1 0.2 0.3 0.4")
	j := serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "40")})
	submit(t, s, j)
	if diff := cmp.Diff([]string{`cannot run in PE "fill" because it only offers 32 slots`}, texts(s.Run(1000).Reasons(j))); diff != "" {
		t.Error(diff)
	}
}
