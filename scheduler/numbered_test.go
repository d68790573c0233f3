package scheduler_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// TestPendingJobsStaySortedByNumber adds jobs, removes them, adds them again with other numbers,
// and adds many at once: they are always sorted by their numbers.
func TestPendingJobsStaySortedByNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scene{}.make(t)
		c, err := s.Model().Category(&scheduler.Requests{})
		if err != nil {
			t.Fatal(err)
		}
		one := tasksOf(t, "1")
		waiting, left := map[uint32]*scheduler.Job{}, []*scheduler.Job{}
		come := func(j *scheduler.Job, id uint32) {
			if waiting[id] == nil {
				j.ID = id
				submit(t, s, j)
				waiting[id] = j
			}
		}
		actions := map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				come(&scheduler.Job{Category: c, Tasks: one}, rapid.Uint32Range(1, 50).Draw(t, "id"))
			},
			"many": func(t *rapid.T) {
				from := rapid.Uint32Range(1, 5000).Draw(t, "from")
				for i := range uint32(1100) {
					come(&scheduler.Job{Category: c, Tasks: one}, from+i)
				}
			},
			"leave": func(t *rapid.T) {
				if len(waiting) > 0 {
					id := rapid.SampledFrom(slices.Sorted(maps.Keys(waiting))).Draw(t, "id")
					s.Dequeue(waiting[id])
					left = append(left, waiting[id])
					delete(waiting, id)
				}
			},
			"back": func(t *rapid.T) {
				if last := len(left) - 1; last >= 0 {
					j := left[last]
					left = left[:last]
					come(j, rapid.Uint32Range(1, 50).Draw(t, "id"))
				}
			},
			"look": func(t *rapid.T) {
				if diff := cmp.Diff(slices.Sorted(maps.Keys(waiting)), s.Numbered()); diff != "" {
					t.Fatal(diff)
				}
			},
		}
		t.Repeat(actions)
	})
}

// TestPoliciesSeeChangesOfPendingJobs changes jobs that a previous run has already seen.
func TestPoliciesSeeChangesOfPendingJobs(t *testing.T) {
	s := scene{files: map[string]string{
		"users/alice": "name alice\nfshare 100\n",
		"sched_conf":  "weight_user 1\nweight_tickets_functional 1000\nmax_functional_jobs_to_schedule 10\nshare_functional_shares TRUE\npolicy_hierarchy NONE\n",
	}}.make(t)
	s.Entitlements.Users = []tickets.Entity{{FunctionalShares: 100}}
	var jobs []*scheduler.Job
	for id := range uint32(2) {
		j := serialJob(t, s.Model(), id+1, &scheduler.Requests{Hard: []qconf.Setting{{Name: "hostname", Value: "nowhere"}}})
		j.User = tickets.RefTo(0)
		submit(t, s, j)
		jobs = append(jobs, j)
	}
	first := func(want int) {
		t.Helper()
		d := s.Run(1000)
		_, a := d.Of(jobs[want])
		_, b := d.Of(jobs[1-want])
		if a.Functional <= b.Functional {
			t.Errorf("job %d has %f tickets, the other one %f", jobs[want].ID, a.Functional, b.Functional)
		}
	}
	first(0)
	s.SetChanged(jobs[0], 1)
	first(1)
}
