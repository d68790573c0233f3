package cell

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// busy is a cluster that uses every feature.
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

// The capacities of the cluster, by queue instance and by consumable.
const (
	licOfN1, licOfN2, tokens = 4, 3, 5
	memOfN1                  = 8
)

// event is a possible event. It is drawn for the state of one cell, and the result can be applied
// to other cells as well. It is nil if no such event is possible.
type event func(*rapid.T, *harness) func(*harness)

var events = map[string]event{
	"qsub": func(t *rapid.T, _ *harness) func(*harness) {
		line := rapid.SampledFrom([]string{
			"", "-t 1-5", "-t 1-9:2 -tc 2", "-pe fill 3", "-pe rr 2-4", "-l lic=2", "-l tok=1", "-pe fill 2 -l tok=2", "-h", "-hold_jid j*", "-hold_jid 1,2,3",
			"-hold_jid_ad j* -t 1-5", "-q high.q", "-q low.q", "-q sup.q", "-q sub.q", "-r y", "-now y", "-a 202611202201", "-p -5", "-l mem=4G", "-soft -q low.q", "-t 1-5 -h",
			"-R y -pe fill 6", "-ar 1", "-ar 2", "-P p1", "-w e -l lic=9", "-l nosuch=1",
		}).Draw(t, "options")
		user := rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user")
		name := rapid.IntRange(1, 3).Draw(t, "name")
		return func(h *harness) { h.logged(h.try(user, line+" -N j"+fmt.Sprint(name))) }
	},
	"run": func(*rapid.T, *harness) func(*harness) { return func(h *harness) { h.logRun(h.run()) } },
	"wait": func(t *rapid.T, _ *harness) func(*harness) {
		seconds := int64(rapid.IntRange(1, 900).Draw(t, "seconds"))
		return func(h *harness) { h.wait(seconds) }
	},
	"end": func(t *rapid.T, h *harness) func(*harness) {
		k := someTask(t, h)
		if k == nil {
			return nil
		}
		e := End{ExitStatus: rapid.SampledFrom([]int{0, 0, 0, 1, 99, 100}).Draw(t, "status"), Failure: rapid.SampledFrom([]Failure{0, 0, 0, 0, JobFailure, QueueFailure, HostFailure, NobodysFailure, Refused}).Draw(t, "failure")}
		e.Used[tickets.CPU] = float64(rapid.IntRange(0, 100).Draw(t, "cpu"))
		job, number := k.Job.ID(), k.Number
		return func(h *harness) { h.logged(h.end(job, number, e), nil) }
	},
	"qdel": func(t *rapid.T, h *harness) func(*harness) {
		r := DeleteRequest{Jobs: someJob(t, h), Force: rapid.Bool().Draw(t, "force")}
		return func(h *harness) { h.logged(h.Delete(h.now, caller("root"), r), nil) }
	},
	"hold": func(t *rapid.T, h *harness) func(*harness) {
		jobs := someJob(t, h)
		return func(h *harness) {
			h.logged(h.Hold(h.now, caller("root"), jobs, nil, submit.HoldChange{Set: submit.HoldUser}), nil)
		}
	},
	"release": func(t *rapid.T, h *harness) func(*harness) {
		jobs := someJob(t, h)
		return func(h *harness) {
			h.logged(h.Hold(h.now, caller("root"), jobs, nil, submit.HoldChange{Clear: submit.AllHolds}), nil)
		}
	},
	"qmod job": func(t *rapid.T, h *harness) func(*harness) {
		op, jobs, force := JobOperation(rapid.IntRange(0, 3).Draw(t, "operation")), someJob(t, h), rapid.Bool().Draw(t, "force")
		return func(h *harness) { h.logged(h.ModifyJobs(h.now, caller("root"), op, jobs, force), nil) }
	},
	"qmod queue": func(t *rapid.T, _ *harness) func(*harness) {
		q := rapid.SampledFrom([]string{"*", "all.q@n1", "low.q", "*@n3"}).Draw(t, "queue")
		op := QueueOperation(rapid.IntRange(0, 5).Draw(t, "operation"))
		return func(h *harness) { h.logged(h.ModifyQueues(h.now, caller("root"), op, []string{q}, false), nil) }
	},
	"qalter": func(t *rapid.T, h *harness) func(*harness) {
		j := someJob(t, h)
		if j == nil {
			return nil
		}
		line := rapid.SampledFrom([]string{"-p 5", "-l lic=1", "-q all.q", "-hold_jid j1", "-hold_jid ''", "-a 202611202210", "-tc 1", "-pe fill 2", "-ot 5", "-ar 1", "-hold_jid_ad 1"}).Draw(t, "options")
		return func(h *harness) { h.logged(h.alter("root", line+" "+j[0].Job), nil) }
	},
	"qresub": func(t *rapid.T, h *harness) func(*harness) {
		change := submit.HoldChange{Set: submit.Holds(rapid.IntRange(0, 7).Draw(t, "holds"))}
		user, jobs := rapid.SampledFrom([]string{"root", "alice"}).Draw(t, "user"), someJob(t, h)
		return func(h *harness) { h.logged(h.Resubmit(h.now, caller(user), jobs, change, nil), nil) }
	},
	"report": func(t *rapid.T, _ *harness) func(*harness) {
		host := rapid.SampledFrom([]string{"n1", "n2", "n3", "global"}).Draw(t, "host")
		load := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "load"))
		return func(h *harness) { h.mustLog(h.HostReport(h.now, host, map[string]string{"users": load})) }
	},
	"lost": func(t *rapid.T, _ *harness) func(*harness) {
		host := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "host")
		return func(h *harness) { h.mustLog(h.HostLost(h.now, host)) }
	},
	"clean": func(*rapid.T, *harness) func(*harness) { return func(h *harness) { h.HostClean(h.now, "n1") } },
	"qrsub": func(t *rapid.T, _ *harness) func(*harness) {
		line := rapid.SampledFrom([]string{"-d 100", "-d 300 -pe fill 3 -u alice,bob", "-a 202611202205 -d 60 -he y"}).Draw(t, "options")
		return func(h *harness) { h.logged(h.reserve("alice", line)) }
	},
	"qrdel": func(t *rapid.T, _ *harness) func(*harness) {
		r := DeleteReservationsRequest{References: []string{fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "id"))}, Force: rapid.Bool().Draw(t, "force")}
		return func(h *harness) { h.logged(h.DeleteReservations(h.now, caller("root"), r), nil) }
	},
	"reconfigure": func(t *rapid.T, _ *harness) func(*harness) {
		without := rapid.Bool().Draw(t, "without a queue")
		return func(h *harness) {
			f := h.files
			if without {
				f = f.with(files{"queues/low.q": ""})
				f["queues/high.q"] = strings.Replace(f["queues/high.q"], "\nsubordinate_list low.q=1", "", 1)
			}
			h.mustLog(h.Reconfigure(h.now, f.cluster(h.t)))
		}
	},
}

// logged records an answer, for comparison.
func (h *harness) logged(a *Answer, err error) {
	if err != nil {
		h.log = append(h.log, "error: "+err.Error())
		return
	}
	h.log = append(h.log, strings.Split(a.text(), "\n")...)
	h.logActions(a.Actions)
}

// mustLog is the same for a command that must not fail.
func (h *harness) mustLog(a *Answer, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	h.logged(a, nil)
}

func (h *harness) logActions(actions []Action) {
	for _, a := range actions {
		h.log = append(h.log, fmt.Sprintf("action %d: %s, attempt %d", a.Kind, a.Task.label(), a.Attempt))
	}
}

// logRun records the decisions of a run.
func (h *harness) logRun(r *Run) {
	for _, s := range r.Decisions.Starts {
		line := fmt.Sprintf("start %d.%d, priority %.9g, tickets %.9g:", s.Job.ID, s.Task, s.Priority.Priority, s.Tickets.Total)
		for _, g := range s.Grants {
			line += fmt.Sprintf(" %s*%d %v %v", h.model.InstanceName(g.Instance), g.Slots, h.model.Names(&g), g.Cores)
		}
		h.log = append(h.log, line)
	}
	h.logActions(r.Actions)
	for _, i := range r.Immediate {
		h.log = append(h.log, texts(i.Events, "\n"))
	}
	for _, err := range r.Problems {
		h.log = append(h.log, err.Error())
	}
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

// happen draws one of the events, in the order of their keys; nil for none.
func happen(t *rapid.T, h *harness, of map[string]event) func(*harness) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "event")
	return of[name](t, h)
}

// whole checks the invariants of a cell.
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
				if g == 0 && j.Request().Reservation == 0 {
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
	for _, r := range j.Request().Resources {
		if r.String() == text && !r.Soft {
			return 1
		}
	}
	return 0
}

// TestWhateverHappens checks for any events that nothing is oversubscribed, that no task is lost or
// duplicated, and that nothing is booked after all tasks have finished.
func TestWhateverHappens(t *testing.T) {
	cluster := busy.cluster(t)
	rapid.Check(t, func(r *rapid.T) {
		h := newHarnessOf(t, cluster)
		h.files = busy
		tasks := map[uint32]int{}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			if do := happen(r, h, events); do != nil {
				do(h)
			}
			h.whole(r, tasks)
		}
		if _, err := h.Reconfigure(h.now, cluster); err != nil {
			r.Fatal(err)
		}
		h.whole(r, tasks)
		h.Delete(h.now, caller("root"), DeleteRequest{Users: []string{"*"}, Force: true})
		for _, ar := range h.Reservations() {
			h.DeleteReservations(h.now, caller("root"), DeleteReservationsRequest{References: []string{itoa(ar.ID)}})
		}
		if got := h.show(); got != "" {
			r.Fatalf("left: %s", got)
		}
		h.idle()
	})
}

// TestEqualEventsGiveEqualAnswers checks that equal events give equal answers.
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
