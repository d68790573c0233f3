package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/value"
)

// TestNothingIsOversubscribed counts after each run what is in use of everything, by the
// grants alone.
func TestNothingIsOversubscribed(t *testing.T) {
	starts := 0
	for seed := range uint64(100) {
		g := newGenerator(seed)
		g.parallel = true
		w := newTwin(seedT{t, seed}, g.site())
		w.alone = true
		w.live(g, 8, func(_ int64, want []*naiveTask, _ *scheduler.Decisions) {
			starts += len(want)
			w.audit(append(slices.Clone(w.naive.running), want...))
		})
	}
	if starts < 400 {
		t.Errorf("only %d tasks started", starts)
	}
}

// audit compares what tasks use with what is configured.
func (w *twin) audit(tasks []*naiveTask) {
	w.t.Helper()
	r := &naiveRun{naive: w.naive, tasks: tasks}
	places := []string{"global"}
	for _, h := range w.site.hosts {
		places = append(places, h.name)
	}
	for _, i := range w.site.instances() {
		places = append(places, i.name())
	}
	for _, p := range places {
		for _, a := range w.site.attributes {
			text, ok := r.configured(p, a.name)
			switch {
			case !ok || !a.isConsumable():
			case a.isExclusive():
				if n, others := r.occupied(p, a.name); n > 0 && (others > 0 || w.jobsAt(tasks, r, p) > 1) {
					w.t.Fatalf("%s is not alone at %s: %v\n%s", a.name, p, tasks, w)
				}
			case r.used(p, a.name) > number(text):
				w.t.Fatalf("%v of %s=%s are in use at %s: %v\n%s", r.used(p, a.name), a.name, text, p, tasks, w)
			}
		}
	}
	for _, p := range w.site.pes {
		n := 0
		for _, t := range tasks {
			for _, g := range t.grants {
				if t.pe == p.name {
					n += g.slots
				}
			}
		}
		if n > p.slots {
			w.t.Fatalf("%d of %d slots of %s are in use\n%s", n, p.slots, p.name, w)
		}
	}
	w.auditQuotas(r, tasks)
	w.auditLimits(tasks)
}

func (w *twin) jobsAt(tasks []*naiveTask, r *naiveRun, place string) int {
	n := 0
	for _, t := range tasks {
		if slices.ContainsFunc(t.grants, func(g naiveGrant) bool { return r.isAt(g, place) }) {
			n++
		}
	}
	return n
}

// auditQuotas counts for each rule and counter. Dynamic limits change with loads, and what
// runs already may exceed them.
func (w *twin) auditQuotas(r *naiveRun, tasks []*naiveTask) {
	w.t.Helper()
	for _, set := range w.site.quotas {
		for _, t := range tasks {
			for _, g := range t.grants {
				i := w.site.instance(g.instance)
				rule := r.ruleFor(set, t.job, t.pe, i)
				if !set.enabled || rule == nil {
					continue
				}
				for _, limit := range rule.limits {
					a := w.site.attribute(limit[0])
					if !a.isConsumable() || a.isExclusive() || strings.HasPrefix(limit[1], "$") {
						continue
					}
					c := rule.counter(t.job, t.pe, i)
					if used, _, _ := r.quotaUsed(set, rule, c, a.name, tasks); used > number(limit[1]) {
						w.t.Fatalf("%v of %s=%s of %s are in use for %+v\n%s", used, a.name, limit[1], set.name, c, w)
					}
				}
			}
		}
	}
}

// auditLimits checks maxujobs, -tc and max_aj_instances, and that each task runs once.
func (w *twin) auditLimits(tasks []*naiveTask) {
	w.t.Helper()
	users, jobs, seen := map[string]int{}, map[*naiveJob]int{}, map[string]bool{}
	for _, t := range tasks {
		users[t.job.user]++
		jobs[t.job]++
		id := fmt.Sprintf("%d.%d", t.job.id, t.task)
		if seen[id] {
			w.t.Fatalf("%s runs twice", id)
		}
		seen[id] = true
	}
	for user, n := range users {
		if most := w.site.scheduler.maxujobs; most > 0 && n > most {
			w.t.Fatalf("%d tasks of %s run, and maxujobs is %d", n, user, most)
		}
	}
	for j, n := range jobs {
		if j.array && (j.limit > 0 && n > j.limit || w.site.maxAJ > 0 && n > w.site.maxAJ) {
			w.t.Fatalf("%d tasks of %+v run", n, j)
		}
	}
}

// decisionsText returns all decisions of a run as text.
func (w *twin) decisionsText(d *scheduler.Decisions) string {
	var b strings.Builder
	for i := range d.Starts {
		s := &d.Starts[i]
		fmt.Fprintf(&b, "start %s %+v %+v %d\n", startText(w.model, s), s.Priority, s.Tickets, s.Duration)
	}
	for _, r := range d.Reservations {
		fmt.Fprintf(&b, "reserve %d.%d %d-%d %s\n", r.Job.ID, r.Task, r.At, r.Until, grantsText(w.model, r.PE, r.Grants))
	}
	for _, x := range d.Suspensions {
		fmt.Fprintf(&b, "threshold %d.%d %d %t\n", x.Task.Job.ID, x.Task.Task, x.Instance, x.Resume)
	}
	for i := range d.Dropped {
		fmt.Fprintln(&b, d.Dropped[i].Text())
	}
	for _, j := range w.naive.pending {
		job := w.jobs[j.id].job
		priority, tickets := d.Of(job)
		fmt.Fprintf(&b, "job %d %+v %+v\n", j.id, priority, tickets)
		reasons := d.Reasons(job)
		for i := range reasons {
			fmt.Fprintln(&b, " ", reasons[i].Text())
		}
	}
	for _, t := range w.naive.running {
		priority, tickets := d.OfRunning(w.tasks[t])
		fmt.Fprintf(&b, "task %s %+v %+v\n", t, priority, tickets)
	}
	return b.String()
}

// stateText returns as text all that callers can see of a state.
func (w *twin) stateText(now int64) string {
	var b strings.Builder
	o := w.state.Observe(now)
	list := func(name string, resources []scheduler.Resource) {
		fmt.Fprintf(&b, "%s:", name)
		for _, x := range resources {
			fmt.Fprintf(&b, " %c%c:%s=%s", x.Layer, x.Kind, w.model.Attributes()[x.Attribute].Name, x.Value.Format(value.Reason))
		}
		b.WriteByte('\n')
	}
	list("global", o.Host(scheduler.GlobalHost))
	for h := range w.model.Hosts() {
		list(w.model.HostName(scheduler.HostID(h)), o.Host(scheduler.HostID(h)))
	}
	for i := range w.model.Instances() {
		id := scheduler.InstanceID(i)
		reserved, used, total := o.SlotsOf(id)
		load, _ := w.state.LoadAlarm(id, now)
		suspend, _ := w.state.SuspendAlarm(id, now)
		list(fmt.Sprintf("%s %d/%d/%d %d %q %q", w.model.InstanceName(id), reserved, used, total, w.state.Status(id), load, suspend), o.Instance(id))
	}
	for _, row := range w.state.Quotas(quota.Selection{}, now) {
		fmt.Fprintf(&b, "%+v\n", row)
	}
	fmt.Fprintln(&b, w.state.Pending(), len(w.state.Running()))
	return b.String()
}

// TestRunChangesNothing runs twice, and looks at the state before and after.
func TestRunChangesNothing(t *testing.T) {
	for seed := range uint64(40) {
		g := newGenerator(seed)
		g.parallel = true
		w := newTwin(seedT{t, seed}, g.site())
		w.alone = true
		w.live(g, 5, func(now int64, _ []*naiveTask, got *scheduler.Decisions) {
			first := w.decisionsText(got)
			before, order := w.stateText(now), w.state.Observe(now).Instances()
			if again := w.decisionsText(w.state.Run(now)); again != first {
				w.t.Fatalf("the second run decides\n%s\nwant\n%s", again, first)
			}
			if after := w.stateText(now); after != before || !slices.Equal(order, w.state.Observe(now).Instances()) {
				w.t.Fatalf("after a run\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// TestEverythingIsFreeInTheEnd ends all tasks: the state is one of a cluster in which
// nothing ever ran.
func TestEverythingIsFreeInTheEnd(t *testing.T) {
	for seed := range uint64(40) {
		g := newGenerator(seed)
		g.parallel = true
		w := newTwin(seedT{t, seed}, g.site())
		w.alone = true
		w.live(g, 5, func(int64, []*naiveTask, *scheduler.Decisions) {})
		for len(w.naive.running) > 0 {
			w.end(w.naive.running[g.IntN(len(w.naive.running))])
		}
		w.subordinate()
		for _, j := range slices.Clone(w.naive.pending) {
			w.state.Dequeue(w.jobs[j.id].job)
		}
		fresh := newTwin(w.t, w.site)
		for host, values := range w.naive.load {
			fresh.report(host, values)
		}
		for _, i := range w.site.instances() {
			fresh.disable(i.name(), w.state.Status(w.instance(i.name())))
		}
		const later = 100000
		if got, want := w.stateText(later), fresh.stateText(later); got != want {
			w.t.Fatalf("in the end\n%s\nwant\n%s", got, want)
		}
		if rows := w.state.Quotas(quota.Selection{}, later); slices.ContainsFunc(rows, func(r quota.Row) bool { return r.Used != "" && r.Used != "0" }) {
			w.t.Fatalf("quotas are in use in the end: %+v", rows)
		}
	}
}

// TestEqualInput lets the same happen twice, with the jobs enqueued in another order the
// second time: all that is decided is the same, byte for byte.
func TestEqualInput(t *testing.T) {
	for seed := range uint64(40) {
		var first string
		for turn := range 3 {
			g := newGenerator(seed)
			g.parallel = true
			w := newTwin(seedT{t, seed}, g.site())
			w.alone = true
			var b strings.Builder
			w.live(g, 5, func(now int64, want []*naiveTask, got *scheduler.Decisions) {
				if turn > 0 {
					for _, j := range w.naive.pending {
						w.state.Dequeue(w.jobs[j.id].job)
					}
					for _, k := range rand.New(rand.NewPCG(seed, uint64(turn))).Perm(len(w.naive.pending)) {
						submit(w.t, w.state, w.jobs[w.naive.pending[k].id].job)
					}
					again := w.state.Run(now)
					copy(got.Starts, again.Starts)
					b.WriteString(w.decisionsText(again))
				} else {
					b.WriteString(w.decisionsText(got))
				}
				b.WriteString(w.stateText(now))
			})
			if turn == 0 {
				first = b.String()
			} else if got := b.String(); got != first {
				t.Fatalf("seed %d, another time:\n%s", seed, cmp.Diff(first, got))
			}
		}
	}
}
