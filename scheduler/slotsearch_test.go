package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// TestFirstNumberOfRangeExcludesHosts submits jobs with a range of slots that a host has places for, but not
// for the first number that the search tries.
func TestFirstNumberOfRangeExcludesHosts(t *testing.T) {
	smp := merged(queueFile("slots 3\n"), map[string]string{"pes/fill": "pe_name fill\nslots 100\nallocation_rule $pe_slots\n"})
	for name, test := range map[string]struct {
		alg   string
		jobs  int
		slots string
		want  []string // slots of the tasks that start, by run
	}{
		"one job":         {"auto", 1, "2-", []string{"3"}},
		"one number":      {"auto", 2, "3", []string{"3 3"}},
		"auto":            {"auto", 2, "2-", []string{"", "3 3"}},
		"least":           {"least", 2, "2-", []string{"3 3"}},
		"binary":          {"bin", 2, "2-", []string{"", ""}},
		"highest":         {"highest", 2, "2-", []string{"", ""}},
		"binary, smaller": {"bin", 2, "1-5", []string{"3 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene{files: merged(smp, map[string]string{"sched_conf": "params PE_RANGE_ALG=" + test.alg + "\njob_load_adjustments NONE\n"})}.make(t)
			for id := range test.jobs {
				submit(t, s, serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{PE: "fill", Slots: slotsOf(t, test.slots)}))
			}
			for run, want := range test.want {
				var got []string
				for _, start := range s.Run(1000).Starts {
					got = append(got, fmt.Sprint(start.Grants[0].Slots))
				}
				if got := strings.Join(got, " "); got != want {
					t.Errorf("run %d starts jobs with %q slots, want %q", run, got, want)
				}
			}
		})
	}
}

// TestSpoiledQuotaAndRange submits jobs with a range of slots that only the second host suits. A quota is compared
// with the first host first, which spoils it for the first number that is tried.
func TestSpoiledQuotaAndRange(t *testing.T) {
	for jobs, want := range map[int]string{1: "", 2: "1"} {
		s := scene{files: merged(queueFile("slots 2\nh_rt INFINITY,[n1=100]\n"), map[string]string{
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule 2\n",
			"rqs":        "{\n name few\n enabled TRUE\n limit to slots=3\n}\n",
			"sched_conf": "params PE_RANGE_ALG=bin\njob_load_adjustments NONE\n",
		})}.make(t)
		for id := range jobs {
			submit(t, s, serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{
				PE: "fill", Slots: slotsOf(t, "1-"), Hard: []qconf.Setting{{Name: "h_rt", Value: "200"}},
			}))
		}
		if got := decided(s.Run(1000)); got != want {
			t.Errorf("%d jobs: %q start, want %q", jobs, got, want)
		}
	}
}

// TestExceededQuotaRulesOutQueue has a rule for an environment on the second host, and one for the cluster queue
// that leaves no slots. If the search comes to the first host first, the second rule rules out the queue.
func TestExceededQuotaRulesOutQueue(t *testing.T) {
	for first, want := range map[string]string{"n1": "", "n2": "1"} {
		s := scene{
			files: merged(queueFile("slots 2\n"), map[string]string{
				"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
				"rqs":        "{\n name few\n enabled TRUE\n limit pes fill hosts n2 to slots=5\n limit queues a.q to slots=0\n}\n",
				"sched_conf": "job_load_adjustments NONE\n",
			}),
			load: map[string]map[string]string{"n1": {"np_load_avg": "0.5"}, "n2": {"np_load_avg": "0.5"}, first: {"np_load_avg": "0.1"}},
		}.make(t)
		submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}))
		if got := decided(s.Run(1000)); got != want {
			t.Errorf("%s first: job %q starts, want %q", first, got, want)
		}
	}
}

// TestNoReservationWithoutUsefulHosts submits a reserving job with a range of slots, of which the first number that
// the search tries excludes all hosts. If another job has the same requests, nothing is reserved for it.
func TestNoReservationWithoutUsefulHosts(t *testing.T) {
	for jobs, want := range map[int]string{1: "1", 2: ""} {
		s := scene{files: merged(queueFile("slots 3\n"), map[string]string{
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $pe_slots\n",
			"sched_conf": "params PE_RANGE_ALG=bin\nmax_reservation 2\ndefault_duration 100\njob_load_adjustments NONE\n",
		}), before: []scheduler.Requests{{Queues: "a.q@n1"}}}.make(t)
		for id := range jobs {
			j := serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2-")})
			j.Reserve = true
			submit(t, s, j)
		}
		if got := decided(s.Run(1000)); got != want {
			t.Errorf("%d jobs: %q, want %q", jobs, got, want)
		}
	}
}

// TestNumbersOfLongRange searches a range that ends far above the slots that the hosts have, or that a quota allows:
// from the largest number down, and from the smallest one up if the quota limits none. The search must not place
// all these numbers.
func TestNumbersOfLongRange(t *testing.T) {
	for _, test := range []struct {
		alg, rule, quota string
		want             int
	}{
		{"highest", "$fill_up", "users {*} to slots=100000", 200},
		{"highest", "$fill_up", "users {*} to slots=20", 20},
		{"highest", "$fill_up", "users {*} hosts {*} to slots=20", 40},
		{"highest", "$round_robin", "users {*} to slots=100000", 200},
		{"highest", "$round_robin", "users {*} to slots=20", 20},
		{"highest", "$pe_slots", "users {*} to slots=100000", 0}, // the first number excludes all hosts
		{"highest", "4", "users {*} to slots=20", 8},
		{"least", "$fill_up", "users {*} to slots=100000", 200},
		{"least", "$round_robin", "users {*} to slots=100000", 200},
		{"least", "4", "users {*} to slots=100000", 8},
	} {
		s := scene{files: merged(queueFile("slots 100\n"), map[string]string{
			"pes/fill":   "pe_name fill\nslots 99999\nallocation_rule " + test.rule + "\n",
			"rqs":        "{\n name few\n enabled TRUE\n limit " + test.quota + "\n}\n",
			"sched_conf": "params PE_RANGE_ALG=" + test.alg + "\njob_load_adjustments NONE\n",
		})}.make(t)
		var j *scheduler.Job
		for id := range 2 {
			j = serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1-")})
			submit(t, s, j)
		}
		tried, found := s.TryRange(j, 1000)
		if tried > 10 || found != test.want {
			t.Errorf("%s, %s, %s: %d slots after %d numbers, want %d after a few", test.alg, test.rule, test.quota, found, tried, test.want)
		}
	}
}
