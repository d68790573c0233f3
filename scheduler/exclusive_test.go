package scheduler_test

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// TestHostsLostToAnExclusiveJob submits a parallel job that requests hosts exclusively: hosts that it is
// refused because other jobs use them are not used any more once a task has started in the run.
func TestHostsLostToAnExclusiveJob(t *testing.T) {
	exclusive := func(pe, slots string) scheduler.Requests {
		return scheduler.Requests{PE: pe, Slots: slotsOf(t, slots), Hard: setting("excl", "1")}
	}
	onN2, small := scheduler.Requests{Queues: "*@n2"}, "job_load_adjustments np_load_avg=0.001\n"
	for _, c := range []struct {
		name, conf string
		jobs       []scheduler.Requests // after a first one on n1
		want       string
	}{
		{"until a task starts", small, []scheduler.Requests{exclusive("fill", "9"), {Queues: onN1}}, "a.q@n1 a.q@n1"},
		{"then they are lost", small, []scheduler.Requests{exclusive("fill", "9"), onN2, {Queues: onN1}, onN2}, "a.q@n1 a.q@n2 a.q@n2"},
		{"the task may be on the same host", small, []scheduler.Requests{exclusive("fill", "9"), {Queues: onN1}, {Queues: onN1}, onN2}, "a.q@n1 a.q@n1 a.q@n2"},
		{"the job may be for other hosts", small, []scheduler.Requests{
			{PE: "fill", Slots: slotsOf(t, "9"), Queues: "*@n2", Hard: setting("excl", "1")}, onN2, {Queues: onN1},
		}, "a.q@n1 a.q@n2"},
		{"the next parallel job makes them forgotten", small, []scheduler.Requests{
			exclusive("fill", "9"), {PE: "fill", Slots: slotsOf(t, "101")}, onN2, {Queues: onN1},
		}, "a.q@n1 a.q@n2 a.q@n1"},
		{"without load adjustments there are no losses", "job_load_adjustments NONE\n", []scheduler.Requests{exclusive("fill", "9"), onN2, {Queues: onN1}}, "a.q@n1 a.q@n2 a.q@n1"},
		{"a job that starts loses hosts that it has looked at", small, []scheduler.Requests{exclusive("fill", "2"), {Queues: onN1}}, "a.q@n1 a.q@n2"},
		{"in turns, too", small, []scheduler.Requests{exclusive("round", "2"), {Queues: onN1}}, "a.q@n1 a.q@n2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files: map[string]string{
					"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 4\nload_thresholds NONE\npe_list fill round\n",
					"pes/fill":   "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
					"hosts/n1":   "hostname n1\ncomplex_values excl=true\n",
					"hosts/n2":   "hostname n2\ncomplex_values excl=true\n",
					"sched_conf": c.conf + "weight_urgency 0\n",
				},
				load: map[string]map[string]string{"n1": {"np_load_avg": "0.1"}, "n2": {"np_load_avg": "0.2"}},
			}.make(t)
			for i, r := range append([]scheduler.Requests{{Queues: onN1}}, c.jobs...) {
				submit(t, s, serialJob(t, s.Model(), uint32(i+1), &r))
			}
			d := s.Run(1000)
			var got []string
			for i := range d.Starts {
				got = append(got, s.Model().InstanceName(d.Starts[i].Grants[0].Instance))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
