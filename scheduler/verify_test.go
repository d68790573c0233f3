package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// TestVerify asks whether a job could ever run, and whether it could run now.
func TestVerify(t *testing.T) {
	full := scene{before: []scheduler.Requests{{}, {}, {}, {}}}
	for _, c := range []struct {
		name string
		scene
		ask        scheduler.Requests
		ever, now  bool
		whyNotEver []string
		whyNotNow  []string
	}{
		{name: "nothing in the way", ever: true, now: true},
		{name: "full", scene: full, ever: true, whyNotNow: []string{
			`(-l NONE) cannot run in queue "a.q@n1" because it offers only qc:slots=0.000000`, `(-l NONE) cannot run in queue "a.q@n2" because it offers only qc:slots=0.000000`,
		}},
		{name: "disabled", scene: scene{state: map[string]scheduler.Status{"a.q@n1": scheduler.DisabledByUser, "a.q@n2": scheduler.Unknown}}, ever: true, whyNotNow: []string{
			`queue instance "a.q@n2" dropped because it is temporarily not available`, `queue instance "a.q@n1" dropped because it is temporarily not available`,
		}},
		{name: "one is disabled", scene: scene{state: map[string]scheduler.Status{"a.q@n1": scheduler.DisabledByUser}}, ever: true, now: true, whyNotNow: []string{
			`queue instance "a.q@n1" dropped because it is temporarily not available`,
		}},
		{
			name: "consumable in use", scene: scene{files: globalFile("complex_values lic=1\n"), before: []scheduler.Requests{hard("lic", "1")}}, ask: hard("lic", "1"),
			ever: true, whyNotNow: []string{`(-l lic=1) cannot run globally because it offers only gc:lic=0.000000`},
		},
		{
			name: "more than there is", scene: scene{files: globalFile("complex_values lic=1\n")}, ask: hard("lic", "2"),
			whyNotEver: []string{`(-l lic=2) cannot run globally because it offers only gc:lic=1.000000`},
			whyNotNow:  []string{`(-l lic=2) cannot run globally because it offers only gc:lic=1.000000`},
		},
		{
			name: "configured", scene: scene{files: map[string]string{
				"hosts/n1": "hostname n1\ncomplex_values os=lx\n", "hosts/n2": "hostname n2\ncomplex_values os=sol\n",
			}}, ask: hard("os", "aix"),
			whyNotEver: []string{`(-l os=aix) cannot run at host "n1" because it offers only hf:os=lx`, `(-l os=aix) cannot run at host "n2" because it offers only hf:os=sol`},
			whyNotNow:  []string{`(-l os=aix) cannot run at host "n1" because it offers only hf:os=lx`, `(-l os=aix) cannot run at host "n2" because it offers only hf:os=sol`},
		},
		{
			name: "static load values count", scene: scene{load: map[string]map[string]string{"n1": {"arch": "lx"}, "n2": {"arch": "lx"}}}, ask: hard("arch", "sol"),
			whyNotEver: []string{`(-l arch=sol) cannot run at host "n1" because it offers only hl:arch=lx`, `(-l arch=sol) cannot run at host "n2" because it offers only hl:arch=lx`},
			whyNotNow:  []string{`(-l arch=sol) cannot run at host "n1" because it offers only hl:arch=lx`, `(-l arch=sol) cannot run at host "n2" because it offers only hl:arch=lx`},
		},
		{name: "overloaded", scene: scene{files: queueFile("load_thresholds hot=1\n"), load: map[string]map[string]string{"n1": {"hot": "1"}, "n2": {"hot": "2"}}}, ever: true, whyNotNow: []string{
			`queue instance "a.q@n1" dropped because it is overloaded: hot=1.000000 (no load adjustment) >= 1`,
			`queue instance "a.q@n2" dropped because it is overloaded: hot=2.000000 (no load adjustment) >= 1`,
		}},
		{name: "quota in use", scene: scene{files: map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit to slots=1\n}\n"}, before: []scheduler.Requests{{}}}, ever: true, whyNotNow: []string{
			`cannot run because it exceeds limit "/////" in rule "q/1"`,
		}},
		{name: "quota of nothing", scene: scene{files: map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit to slots=0\n}\n"}}, whyNotEver: []string{
			`cannot run because it exceeds limit "/////" in rule "q/1"`,
		}, whyNotNow: []string{`cannot run because it exceeds limit "/////" in rule "q/1"`}},
		{
			name: "environment in use", scene: scene{before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "2")}}}, ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")},
			ever: true, whyNotNow: []string{`cannot run in PE "fill" because it only offers 1 slots`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make(t)
			j := serialJob(t, s.Model(), 1, &c.ask)
			check := func(how scheduler.Verification, want bool, why []string) {
				t.Helper()
				reasons, ok := s.Verify(j, how, 1000)
				if ok != want {
					t.Errorf("it could run: %t, want %t", ok, want)
				}
				if diff := cmp.Diff(why, texts(reasons)); diff != "" && (!want || why != nil) {
					t.Error(diff)
				}
			}
			check(scheduler.EmptyCluster, c.ever, c.whyNotEver)
			check(scheduler.AsItIs, c.now, c.whyNotNow)
			check(scheduler.EmptyCluster, c.ever, c.whyNotEver)
			submit(t, s, j)
			if d := s.Run(1000); (len(d.Starts) == 1) != c.now {
				t.Errorf("a run starts %d tasks", len(d.Starts))
			}
		})
	}
}

// TestVerifyAgreesWithRun compares, in made up clusters: what can run now by itself is what
// a run with this job alone starts, and it could run in the empty cluster, too.
func TestVerifyAgreesWithRun(t *testing.T) {
	could := 0
	for seed := range uint64(30) {
		g := newGenerator(seed)
		g.parallel = true
		w := newTwin(seedT{t, seed}, g.site())
		w.alone = true
		w.live(g, 4, func(now int64, _ []*naiveTask, _ *scheduler.Decisions) {
			if w.site.scheduler.maxujobs > 0 || w.site.maxAJ > 0 {
				return
			}
			for _, j := range w.naive.pending {
				w.state.Dequeue(w.jobs[j.id].job)
			}
			for _, j := range w.naive.pending {
				job := w.jobs[j.id].job
				_, now1 := w.state.Verify(job, scheduler.AsItIs, now)
				submit(w.t, w.state, job)
				d := w.state.Run(now)
				w.state.Dequeue(job)
				if now1 != (len(d.Starts) > 0) && j.limit == 0 {
					w.t.Fatalf("job %+v could run: %t, and a run starts %d tasks", *j, now1, len(d.Starts))
				}
				if now1 {
					could++
				}
			}
			for _, j := range w.naive.pending {
				submit(w.t, w.state, w.jobs[j.id].job)
			}
		})
	}
	if could < 100 {
		t.Errorf("only %d jobs could run", could)
	}
}
