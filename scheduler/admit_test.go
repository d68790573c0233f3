package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// running returns a start as its master books it.
func running(s *scheduler.Start, now int64) *scheduler.Running {
	return &scheduler.Running{Job: s.Job, Task: s.Task, Started: now, PE: s.PE, Grants: s.Grants}
}

// TestWhatRunsDecideIsAdmitted asks for each start of runs in made up clusters whether it
// is right, when those before it have been started.
func TestWhatRunsDecideIsAdmitted(t *testing.T) {
	starts := 0
	for seed := range uint64(160) {
		starts += admitRuns(t, seed, seed%2 == 1)
	}
	if starts < 500 {
		t.Errorf("only %d tasks started", starts)
	}
}

// FuzzAdmit makes the comparisons of TestWhatRunsDecideIsAdmitted with random seeds, for longer than a test may take.
func FuzzAdmit(f *testing.F) {
	f.Add(uint64(0), true)
	f.Fuzz(func(t *testing.T, seed uint64, parallel bool) { admitRuns(t, seed, parallel) })
}

func admitRuns(t *testing.T, seed uint64, parallel bool) (starts int) {
	t.Helper()
	g := newGenerator(seed)
	g.parallel = parallel
	w := newTwin(seedT{t, seed}, g.site())
	w.alone = true
	w.live(g, 8, func(now int64, _ []*naiveTask, got *scheduler.Decisions) {
		var booked []*scheduler.Running
		for i := range got.Starts {
			r := running(&got.Starts[i], now)
			reasons, err := w.state.Admit(r, now)
			if err != nil || len(reasons) > 0 {
				w.t.Fatalf("%s\nat %d, start %d, %s: %q, %v", w, now, i+1, startText(w.model, &got.Starts[i]), texts(reasons), err)
			}
			if err := w.state.Start(r); err != nil {
				w.t.Fatal(err)
			}
			booked = append(booked, r)
			starts++
		}
		for _, r := range slices.Backward(booked) {
			if err := w.state.End(r); err != nil {
				w.t.Fatal(err)
			}
		}
	})
	return starts
}

// TestAdmitIsExact asks for each waiting serial job and each instance, and compares with
// the naive scheduler.
func TestAdmitIsExact(t *testing.T) {
	asked, admitted := 0, 0
	for seed := range uint64(60) {
		g := newGenerator(seed)
		s := g.site()
		s.scheduler.adjustments = nil
		for _, i := range s.instances() {
			i.load = slices.DeleteFunc(i.load, func(l [2]string) bool { return l[0] == "mem" })
		}
		w := newTwin(seedT{t, seed}, s)
		w.alone = true
		w.live(g, 5, func(now int64, _ []*naiveTask, _ *scheduler.Decisions) {
			for _, j := range w.naive.pending {
				for _, i := range s.instances() {
					want := w.naivelyFits(j, i, now)
					r := &scheduler.Running{Job: w.jobs[j.id].job, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: w.instance(i.name()), Slots: 1}}}
					reasons, err := w.state.Admit(r, now)
					if err != nil || want != (len(reasons) == 0) {
						w.t.Fatalf("%s\nat %d, %+v in %s: %q, %v, want admitted: %t", w, now, *j, i.name(), texts(reasons), err, want)
					}
					if asked++; want {
						admitted++
					}
				}
			}
		})
	}
	if admitted < asked/20 || asked < 1500 {
		t.Errorf("only %d of %d were admitted", admitted, asked)
	}
}

// naivelyFits reports whether a serial job fits into one instance according to the naive scheduler.
func (w *twin) naivelyFits(j *naiveJob, i *siteInstance, now int64) bool {
	r := &naiveRun{naive: w.naive, now: now, tasks: w.naive.running, reduced: map[string]float64{}}
	r.reduce()
	global := w.site.global
	return !w.naive.disabled[i.name()] && !r.alarm(i.name()) && !r.subordinated(i) && r.used(i.name(), "slots") < float64(i.slots) &&
		r.allows(j, &global.access) && !r.forced(j, global.values) && r.offers(j, "global") && r.fits(j, i)
}

// TestAdmitOversubscribesNothing places jobs at random: every job that is admitted fits.
func TestAdmitOversubscribesNothing(t *testing.T) {
	tried, admitted, parallel := 0, 0, 0
	for seed := range uint64(100) {
		g := newGenerator(seed)
		g.parallel = true
		s := g.site()
		for _, i := range s.instances() {
			i.slots += g.IntN(5)
		}
		w := newTwin(seedT{t, seed}, s)
		w.alone = true
		w.live(g, 2, func(int64, []*naiveTask, *scheduler.Decisions) {})
		for now := int64(11000); now < 15000; now += 1000 {
			for range 10 {
				w.submit(g.job(w.site, now), false)
			}
			for _, t := range slices.Clone(w.naive.running) {
				if g.chance(30) {
					w.end(t)
				}
			}
			for range 40 {
				if tried++; w.tryAnything(g, now) {
					admitted++
				}
			}
			for _, t := range w.naive.running {
				if t.started == now && t.pe != "" {
					parallel++
				}
			}
			w.audit(w.naive.running)
		}
	}
	if admitted < 200 || parallel < 60 {
		t.Errorf("only %d of %d were admitted, %d of them parallel", admitted, tried, parallel)
	}
}

// tryAnything starts a task somewhere if that is admitted.
func (w *twin) tryAnything(g *generator, now int64) bool {
	if len(w.naive.pending) == 0 {
		return false
	}
	j := w.naive.pending[g.IntN(len(w.naive.pending))]
	if w.site.scheduler.maxujobs > 0 || j.array && j.active > 0 {
		return false // limits on tasks are not looked at
	}
	start := &scheduler.Start{Job: w.jobs[j.id].job, Task: uint32(j.tasks[0]), PE: scheduler.None}
	task := &naiveTask{job: j, task: j.tasks[0], started: now}
	left := 1
	if j.pe != "" {
		pe := pick(g, w.site.pes...)
		start.PE, _ = w.model.PE(pe.name)
		task.pe, left = pe.name, pick(g, j.slots...)
	}
	for _, k := range g.Perm(w.model.Instances()) {
		if left == 0 {
			break
		}
		n := left
		if g.chance(40) {
			n = 1 + g.IntN(left)
		}
		left -= n
		start.Grants = append(start.Grants, scheduler.Grant{Instance: scheduler.InstanceID(k), Slots: n})
		task.grants = append(task.grants, naiveGrant{w.model.InstanceName(scheduler.InstanceID(k)), n})
	}
	reasons, err := w.state.Admit(running(start, now), now)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(reasons) > 0 {
		return false
	}
	w.start(start, task)
	return true
}

// TestModelOfOneHost leaves out what is on other hosts.
func TestModelOfOneHost(t *testing.T) {
	files := directory(map[string]string{
		"hosts/n1.example.com": "hostname n1.example.com\ncomplex_values slots=3\n", "hosts/n2": "hostname n2\n",
		"queues/a.q": "qname a.q\nhostlist n1.example.com n2\nslots 2\n", "queues/b.q": "qname b.q\nhostlist n2\nslots 2\n",
	})
	cluster, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{Only: "n1"})
	if len(problems) > 0 {
		t.Error(problems)
	}
	if m.Hosts() != 1 || m.HostName(0) != "n1.example.com" || m.Instances() != 1 || m.InstanceName(0) != "a.q@n1.example.com" || m.Queues() != 2 {
		t.Errorf("%d hosts, %d instances, %d queues", m.Hosts(), m.Instances(), m.Queues())
	}
	for queues, want := range map[string]string{
		"a.q@n2,a.q@n1*": "", "b.q,gone": `cannot run in queue "a.q" because it is not contained in its hard queue list (-q)`,
	} {
		c, err := m.Category(&scheduler.Requests{User: "alice", Queues: queues})
		if err != nil {
			t.Errorf("-q %s: %v", queues, err)
			continue
		}
		r := &scheduler.Running{Job: &scheduler.Job{ID: 1, Category: c}, PE: scheduler.None, Grants: []scheduler.Grant{{Slots: 1}}}
		s := scheduler.NewState(m)
		if err := s.SetLoad("n1.example.com", map[string]string{"np_load_avg": "0"}); err != nil {
			t.Fatal(err)
		}
		reasons, err := s.Admit(r, 0)
		if got := strings.Join(texts(reasons), ";"); err != nil || got != want {
			t.Errorf("-q %s: %q, %v, want %q", queues, got, err, want)
		}
	}
}
