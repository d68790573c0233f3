package cell

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// busy is a cluster with something of everything.
var busy = small.with(files{
	"queues/all.q":  "qname all.q\nhostlist n1 n2 n3\nslots 3\nload_thresholds NONE\npe_list fill rr\nqtype BATCH\nrerun TRUE",
	"queues/high.q": "qname high.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\npe_list fill\nsubordinate_list low.q=1",
	"queues/low.q":  "qname low.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\nsuspend_thresholds users=5\nsuspend_interval 0:0:10",
	"queues/sup.q":  "qname sup.q\nhostlist n3\nslots 2\nload_thresholds NONE\nsubordinate_list slots=2(sub.q:1:sr)",
	"queues/sub.q":  "qname sub.q\nhostlist n3\nslots 2\nload_thresholds NONE\ncalendar night",
	"hosts/n1":      "hostname n1\ncomplex_values lic=4,mem=8G",
	"hosts/n3":      "hostname n3",
	"hosts/global":  "hostname global\ncomplex_values tok=5",
	"complexes":     strings.Replace(small["complexes"], "mem mem MEMORY <= YES NO 0 0", "mem mem MEMORY <= YES YES 1G 0", 1) + "\ntok tok INT <= YES JOB 0 0",
	"conf/global":   "reschedule_unknown 0:1:0\nmax_aj_instances 3",
	"rqs":           "{\nname r\nenabled TRUE\nlimit users {*} to slots=6\n}",
})

// capacities are what the cluster has, by queue instance and by consumable.
const (
	licOfN1, licOfN2, tokens = 4, 3, 5
	memOfN1                  = 8
)

// event is something that may happen.
type event func(*rapid.T, *harness)

var events = map[string]event{
	"qsub": func(t *rapid.T, h *harness) {
		line := rapid.SampledFrom([]string{
			"", "-t 1-5", "-t 1-9:2 -tc 2", "-pe fill 3", "-pe rr 2-4", "-l lic=2", "-l tok=1", "-pe fill 2 -l tok=2", "-h", "-hold_jid j*", "-hold_jid 1,2,3",
			"-hold_jid_ad j* -t 1-5", "-q high.q", "-q low.q", "-q sup.q", "-q sub.q", "-r y", "-now y", "-a 202611202201", "-p -5", "-l mem=4G", "-soft -q low.q", "-t 1-5 -h",
			"-R y -pe fill 6", "-ar 1", "-ar 2", "-P p1", "-w e -l lic=9", "-l nosuch=1",
		}).Draw(t, "options")
		_, _ = h.try(rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user"), line+" -N j"+fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "name")))
	},
	"run":  func(_ *rapid.T, h *harness) { h.run() },
	"wait": func(t *rapid.T, h *harness) { h.wait(int64(rapid.IntRange(1, 900).Draw(t, "seconds"))) },
	"end": func(t *rapid.T, h *harness) {
		if k := someTask(t, h); k != nil {
			e := End{ExitStatus: rapid.SampledFrom([]int{0, 0, 0, 1, 99, 100}).Draw(t, "status"), Failure: rapid.SampledFrom([]Failure{0, 0, 0, 0, JobFailure, QueueFailure, HostFailure}).Draw(t, "failure")}
			h.end(k.Job.ID(), k.Number, e)
		}
	},
	"qdel": func(t *rapid.T, h *harness) {
		h.Delete(h.now, caller("root"), DeleteRequest{Jobs: someJob(t, h), Force: rapid.Bool().Draw(t, "force")})
	},
	"hold": func(t *rapid.T, h *harness) {
		h.Hold(h.now, caller("root"), someJob(t, h), nil, submit.HoldChange{Set: submit.HoldUser})
	},
	"release": func(t *rapid.T, h *harness) {
		h.Hold(h.now, caller("root"), someJob(t, h), nil, submit.HoldChange{Clear: submit.AllHolds})
	},
	"qmod job": func(t *rapid.T, h *harness) {
		h.ModifyJobs(h.now, caller("root"), JobOperation(rapid.IntRange(0, 3).Draw(t, "operation")), someJob(t, h), rapid.Bool().Draw(t, "force"))
	},
	"qmod queue": func(t *rapid.T, h *harness) {
		q := rapid.SampledFrom([]string{"*", "all.q@n1", "low.q", "*@n3"}).Draw(t, "queue")
		h.ModifyQueues(h.now, caller("root"), QueueOperation(rapid.IntRange(0, 5).Draw(t, "operation")), []string{q}, false)
	},
	"qalter": func(t *rapid.T, h *harness) {
		if j := someJob(t, h); j != nil {
			line := rapid.SampledFrom([]string{"-p 5", "-l lic=1", "-q all.q", "-hold_jid j1", "-hold_jid ''", "-a 202611202210", "-tc 1", "-pe fill 2", "-ot 5", "-ar 1", "-hold_jid_ad 1"}).Draw(t, "options")
			h.alter("root", line+" "+j[0].Job)
		}
	},
	"report": func(t *rapid.T, h *harness) {
		host := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "host")
		if _, err := h.HostReport(h.now, host, map[string]string{"users": fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "load"))}); err != nil {
			t.Fatal(err)
		}
	},
	"lost": func(t *rapid.T, h *harness) {
		if _, err := h.HostLost(h.now, rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "host")); err != nil {
			t.Fatal(err)
		}
	},
	"clean": func(_ *rapid.T, h *harness) { h.HostClean(h.now, "n1") },
	"qrsub": func(t *rapid.T, h *harness) {
		line := rapid.SampledFrom([]string{"-d 100", "-d 300 -pe fill 3 -u alice,bob", "-a 202611202205 -d 60 -he y"}).Draw(t, "options")
		_, _ = h.reserve("alice", line)
	},
	"qrdel": func(t *rapid.T, h *harness) {
		h.DeleteReservations(h.now, caller("root"), []string{fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "id"))})
	},
	"reconfigure": func(t *rapid.T, h *harness) {
		f := busy
		if rapid.Bool().Draw(t, "without a queue") {
			f = busy.with(files{"queues/low.q": ""})
			f["queues/high.q"] = strings.Replace(f["queues/high.q"], "\nsubordinate_list low.q=1", "", 1)
		}
		if _, err := h.Reconfigure(h.now, f.cluster(h.t)); err != nil {
			t.Fatal(err)
		}
	},
}

func someTask(t *rapid.T, h *harness) *Task {
	var all []*Task
	for _, j := range h.Jobs() {
		for _, k := range j.tasks {
			if k.run != nil {
				all = append(all, k)
			}
		}
	}
	if all == nil {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "task")
}

func someJob(t *rapid.T, h *harness) []submit.JobRange {
	all := h.ids()
	if len(all) == 0 {
		return nil
	}
	r := submit.JobRange{Job: itoa(rapid.SampledFrom(all).Draw(t, "job"))}
	if rapid.IntRange(0, 3).Draw(t, "tasks") == 0 {
		r.Tasks = []submit.Array{{First: 1, Last: 3, Step: 1}}
	}
	return []submit.JobRange{r}
}

// whole checks what must hold at any time.
func (h *harness) whole(t *rapid.T, tasks map[uint32]int) {
	lic, mem := map[string]int{}, map[string]int{}
	tok := 0
	slots := map[scheduler.InstanceID]int{}
	running := 0
	for _, j := range h.Jobs() {
		seen := map[uint32]bool{}
		n := j.Waiting.Len()
		for i, k := range j.tasks {
			if i > 0 && j.tasks[i-1].Number >= k.Number || seen[k.Number] || j.Waiting.Contains(int(k.Number)) {
				t.Fatalf("job %d has task %d twice", j.ID(), k.Number)
			}
			n++
			if k.run == nil {
				continue
			}
			running++
			for g, grant := range k.run.Grants {
				slots[grant.Instance] += grant.Slots
				host := h.model.HostName(h.model.HostOf(grant.Instance))
				mem[host] += grant.Slots * max(1, request(j, "mem=4G")*4)
				lic[host] += grant.Slots * (request(j, "lic=1") + 2*request(j, "lic=2"))
				if g == 0 && j.Request.Reservation == 0 {
					tok += request(j, "tok=1") + 2*request(j, "tok=2")
				}
			}
		}
		if n > tasks[j.ID()] && tasks[j.ID()] != 0 {
			t.Fatalf("job %d has %d tasks, and had %d", j.ID(), n, tasks[j.ID()])
		}
		if tasks[j.ID()] = n; n == 0 {
			t.Fatalf("job %d has no tasks", j.ID())
		}
	}
	if n := len(h.state.Running()); n != running {
		t.Fatalf("%d tasks run, and %d are booked", running, n)
	}
	for id, n := range slots {
		if limit := h.model.Settings(id).Slots; n > limit {
			t.Fatalf("%s has %d slots, and %d are in use", h.model.InstanceName(id), limit, n)
		}
	}
	if lic["n1"] > licOfN1 || lic["n2"] > licOfN2 || tok > tokens || mem["n1"] > memOfN1 {
		t.Fatalf("oversubscribed: lic %v, tok %d, mem %v\n%s", lic, tok, mem, h.show())
	}
}

func request(j *Job, text string) int {
	for _, r := range j.Request.Resources {
		if r.String() == text && !r.Soft {
			return 1
		}
	}
	return 0
}

// Whatever happens, nothing is oversubscribed, no task is lost or there twice, and when all
// tasks have ended nothing is booked.
func TestWhateverHappens(t *testing.T) {
	cluster := busy.cluster(t)
	rapid.Check(t, func(r *rapid.T) {
		h := newHarnessOf(t, cluster)
		tasks := map[uint32]int{}
		names := make([]string, 0, len(events))
		for name := range events {
			names = append(names, name)
		}
		slices.Sort(names)
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			name := rapid.SampledFrom(names).Draw(r, "event")
			events[name](r, h)
			h.whole(r, tasks)
		}
		if _, err := h.Reconfigure(h.now, cluster); err != nil {
			r.Fatal(err)
		}
		h.whole(r, tasks)
		h.Delete(h.now, caller("root"), DeleteRequest{Users: []string{"*"}, Force: true})
		for _, ar := range h.Reservations() {
			h.DeleteReservations(h.now, caller("root"), []string{itoa(ar.ID)})
		}
		if got := h.show(); got != "" {
			r.Fatalf("left: %s", got)
		}
		h.idle()
	})
}

// The same events give the same answers.
func TestEqualEventsGiveEqualAnswers(t *testing.T) {
	run := func() string {
		h := newHarness(t, busy)
		var log strings.Builder
		for i := range 40 {
			line := []string{"-t 1-5", "-pe fill 3", "-q high.q", "-q low.q -r y", "-l lic=2"}[i%5]
			if a, err := h.try([]string{"alice", "bob"}[i%2], line); err == nil {
				log.WriteString(a.text() + "\n")
			}
			for _, a := range h.run().Actions {
				fmt.Fprintf(&log, "%d %s\n", a.Kind, a.Task.label())
			}
			h.wait(30)
			log.WriteString(h.show() + "\n")
		}
		return log.String()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("once\n%s\nand then\n%s", a, b)
	}
}
