package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// TestTurnsUseUpQuotasAtTheEnd sets up two jobs with -R y that want at least two slots of two hosts, in turns. The
// first number that is tried is larger than that. Each further turn takes a slot from the quota as it will be after
// the end of all jobs, until none is left: then the queue instances are not used for smaller numbers either. The
// mechanism is that of a seed that was recorded from Grid Engine 8.1.9.
func TestTurnsUseUpQuotasAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		rqs, reserve string
		jobs         int
		want         string
	}{
		"the quota of each host is used up":     {"limit users {*} hosts {*} to slots=2", "1", 2, "[]"},
		"without a quota the job starts":        {"limit users dave to slots=2", "1", 2, "[1:2]"},
		"the quota is for more than the number": {"limit users {*} hosts {*} to slots=99", "1", 2, "[1:2]"},
		"no places may be reserved":             {"limit users {*} hosts {*} to slots=2", "0", 2, "[1:2]"},
		"no other job has the same requests":    {"limit users {*} hosts {*} to slots=2", "1", 1, "[1:2]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene{files: map[string]string{
				"hosts/n1":   "hostname n1\n",
				"hosts/n2":   "hostname n2\n",
				"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\npe_list rr\n",
				"pes/rr":     "pe_name rr\nslots 100\nallocation_rule $round_robin\n",
				"rqs":        "{\n name s\n enabled TRUE\n " + c.rqs + "\n}\n",
				"sched_conf": "job_load_adjustments NONE\nmax_reservation " + c.reserve + "\n",
			}}.make(t)
			for id := range uint32(c.jobs) {
				j := serialJob(t, s.Model(), id+1, &scheduler.Requests{PE: "rr", Slots: slotsOf(t, "2-")})
				j.Reserve = true
				submit(t, s, j)
			}
			got := []string{}
			for _, d := range s.Run(1000).Starts {
				n := 0
				for _, g := range d.Grants {
					n += g.Slots
				}
				got = append(got, fmt.Sprintf("%d:%d", d.Job.ID, n))
			}
			if text := fmt.Sprint(got); text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}
