package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// softJob is a job of TestInstanceOrderAfterSoftParallelJobs: so many slots of an environment, or none for a
// serial job.
type softJob struct{ slots, queues, soft string }

// TestInstanceOrderAfterSoftParallelJobs checks which instances jobs get after parallel jobs with
// soft requests. The expected results were recorded from Grid Engine 8.1.9.
func TestInstanceOrderAfterSoftParallelJobs(t *testing.T) {
	mixed := []softJob{
		{slots: "2"},
		{slots: "101"}, // more than the environment has
		{slots: "90"},
		{},
		{slots: "89", soft: "*@n4"},
		{slots: "102"},
		{},
		{},
		{slots: "88", soft: "*@n1"},
		{},
		{},
		{slots: "87", soft: "*@n4"},
		{},
		{slots: "86", soft: "*@n4"},
		{},
		{},
		{slots: "2", soft: "*@n4"}, // starts
		{},
	}
	early := []softJob{
		{slots: "100", soft: "b.q@n2"},
		{},
		{slots: "99"},
		{},
		{slots: "100", queues: "a.q", soft: "*@n3"},
		{queues: "b.q"},
		{slots: "2"},
		{slots: "101", queues: "b.q", soft: "*@n4"},
		{slots: "2"},
		{},
	}
	serial := []softJob{
		{},
		{slots: "90", soft: "*@n4"},
		{queues: "a.q@n2,b.q@n2", soft: "b.q@n3"},
		{},
		{slots: "1", queues: "b.q"},
		{},
		{slots: "88", queues: "a.q", soft: "*@n3"},
		{},
		{queues: "b.q"},
	}
	for _, c := range []struct {
		name, conf, loads string
		jobs              []softJob
		want              string
	}{
		{
			"loads are adjusted", "job_load_adjustments np_load_avg=0.15", "0.1 0.2 0.3 0.4", mixed,
			"1 a.q@n1, 4 a.q@n1, 7 a.q@n4, 8 a.q@n2, 10 a.q@n1, 11 a.q@n3, 13 a.q@n4, 15 a.q@n4, 16 a.q@n2, 17 b.q@n4, 18 a.q@n3",
		},
		{
			"loads stay", "job_load_adjustments NONE", "0.1 0.2 0.3 0.4", mixed,
			"1 a.q@n1, 4 a.q@n1, 7 a.q@n4, 8 a.q@n4, 10 a.q@n1, 11 b.q@n1, 13 a.q@n4, 15 a.q@n4, 16 b.q@n4, 17 b.q@n4, 18 b.q@n1",
		},
		{
			"before any serial job", "job_load_adjustments np_load_avg=0.15", "0.1 0.2 0.3 0.4", early,
			"2 a.q@n1, 4 a.q@n2, 6 b.q@n1, 7 a.q@n3, 9 a.q@n3, 10 a.q@n2",
		},
		{
			"equal hosts, by seq_no", "job_load_adjustments NONE\nqueue_sort_method seqno", "0.1 0.1 0.1 0.1", early,
			"2 a.q@n1, 4 a.q@n1, 6 b.q@n2, 7 a.q@n3, 9 a.q@n3, 10 a.q@n1",
		},
		{
			"serial jobs with soft requests", "job_load_adjustments NONE", "0.1 0.2 0.3 0.4", serial,
			"1 a.q@n1, 3 a.q@n2, 4 a.q@n4, 5 b.q@n4, 6 a.q@n4, 8 a.q@n3, 9 b.q@n1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fourHosts(t, c.conf, c.loads)
			for i, j := range c.jobs {
				r := &scheduler.Requests{Queues: j.queues, SoftQueues: j.soft}
				if j.slots != "" {
					r.PE, r.Slots = "fill", slotsOf(t, j.slots)
				}
				submit(t, s, serialJob(t, s.Model(), uint32(i+1), r))
			}
			d := s.Run(1000)
			var got []string
			for i := range d.Starts {
				start := &d.Starts[i]
				got = append(got, fmt.Sprintf("%d %s", start.Job.ID, s.Model().InstanceName(start.Grants[0].Instance)))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%s\nwant %s", text, c.want)
			}
		})
	}
}

// fourHosts are four hosts with two queues, each with four slots, where jobs take their
// turn by their numbers.
func fourHosts(t *testing.T, conf, loads string) *scheduler.State {
	t.Helper()
	const queue = "qname %s.q\nhostlist n1 n2 n3 n4\nslots 4\nload_thresholds NONE\npe_list fill\nseq_no %d\n"
	sc := scene{
		files: map[string]string{
			"queues/a.q": fmt.Sprintf(queue, "a", 10),
			"queues/b.q": fmt.Sprintf(queue, "b", 20),
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
			"sched_conf": "weight_urgency 0\nload_adjustment_decay_time 24:0:0\n" + conf + "\n",
		},
		load: map[string]map[string]string{},
	}
	for i, load := range strings.Fields(loads) {
		host := fmt.Sprintf("n%d", i+1)
		sc.files["hosts/"+host] = "hostname " + host + "\n"
		sc.load[host] = map[string]string{"np_load_avg": load}
	}
	return sc.make(t)
}

// TestFullInstancesOfReservingJobs sets up a parallel job with -R y and soft requests that finds no place at any time.
// The instances are in its preferred order for the next parallel job, and among them those that are full: their
// hosts come before others, with their free instances. Grid Engine looks at full instances only the first time that
// the job finds no place to reserve. The expected result is the mechanism of a seed that was recorded from Grid
// Engine 8.1.9.
func TestFullInstancesOfReservingJobs(t *testing.T) {
	s := scene{
		files: map[string]string{
			"hosts/n1":   "hostname n1\n",
			"hosts/n2":   "hostname n2\n",
			"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\npe_list fill smp\n",
			"queues/b.q": "qname b.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\npe_list fill\n",
			"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
			"pes/smp":    "pe_name smp\nslots 100\nallocation_rule $pe_slots\n",
			"sched_conf": "job_load_adjustments NONE\nmax_reservation 1\nweight_urgency 0\n",
		},
		load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "0.2"}},
	}.make(t)
	submit(t, s, serialJob(t, s.Model(), 1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}))
	hopeless := serialJob(t, s.Model(), 2, &scheduler.Requests{PE: "smp", Slots: slotsOf(t, "5"), SoftQueues: "b.q"})
	hopeless.Reserve = true
	submit(t, s, hopeless)
	submit(t, s, serialJob(t, s.Model(), 3, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}))
	for _, want := range []string{"1 a.q@n1, 3 b.q@n1", "1 a.q@n1, 3 a.q@n2"} {
		var got []string
		for _, d := range s.Run(1000).Starts {
			got = append(got, fmt.Sprintf("%d %s", d.Job.ID, s.Model().InstanceName(d.Grants[0].Instance)))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}
