package cell

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// rich is the cluster busy with additional features that depend on earlier events.
var rich = busy.with(files{
	"queues/low.q": busy["queues/low.q"] + "\nowner_list alice",
	"complexes":    busy["complexes"] + "\ngpu gpu RSMAP <= YES YES 0 0\nfab fab RSMAP <= YES JOB 0 0\nm_topology topo STRING == YES NO NONE 0",
	"hosts/n2":     busy["hosts/n2"] + ",gpu=2(g0 g1)",
	"hosts/global": busy["hosts/global"] + ",fab=2(left right)",
	"conf/global":  busy["conf/global"] + "\nenforce_user auto\nauto_user_fshare 3\nauto_user_delete_time 0:10:0\nauto_user_oticket 2",
	"users/alice":  "name alice\nfshare 5\noticket 1",
	"sharetree":    "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2,3\nid=1\nname=alice\ntype=0\nshares=50\nchildnodes=NONE\nid=2\nname=p1\ntype=1\nshares=50\nchildnodes=NONE\nid=3\nname=default\ntype=0\nshares=10\nchildnodes=NONE",
	"sched_conf": strings.NewReplacer("weight_urgency 0", "weight_urgency 0.1", "job_load_adjustments NONE", "job_load_adjustments users=1").Replace(busy["sched_conf"]) +
		"\nhalftime 1\nweight_tickets_share 10000\nweight_tickets_functional 1000\nweight_deadline 3600\nload_adjustment_decay_time 0:7:30\nparams BINDING_AWARE=1\nmax_reservation 3",
})

// moreEvents are events that only have an effect in the cluster rich.
var moreEvents = map[string]event{
	"qsub more": func(t *rapid.T, _ *harness) func(*harness) {
		line := rapid.SampledFrom([]string{
			"-l gpu=1", "-l fab=1 -pe rr 2", "-binding linear:1", "-t 1-3 -js 5 -P p1", "-dl 202611202230", "-hold_jid_ad j* -t 1-5",
			"-r y -t 1-3", "-v A=\xff,B=\u00e4\ufffd", "-q low.q -r y -pe fill 2", "-t 1-200:3 -tc 3 -h", "-q sub.q -l h_rt=60 -t 1-2",
		}).Draw(t, "options")
		user := rapid.SampledFrom([]string{"alice", "bob", "carol", "dave", "eve"}).Draw(t, "user")
		name := rapid.IntRange(1, 3).Draw(t, "name")
		return func(h *harness) { h.logged(h.try(user, line+" -N j"+fmt.Sprint(name))) }
	},
	"run unconfirmed": func(*rapid.T, *harness) func(*harness) {
		return func(h *harness) { h.logRun(h.Schedule(h.now)) }
	},
	"usage": func(t *rapid.T, h *harness) func(*harness) {
		k := someTask(t, h)
		if k == nil {
			return nil
		}
		used := tickets.Amounts{tickets.CPU: rapid.Float64Range(0, 1e6).Draw(t, "cpu"), tickets.Mem: float64(rapid.IntRange(0, 9).Draw(t, "mem"))}
		job, number := k.Job.ID(), k.Number
		return func(h *harness) {
			if err := h.UsageReport(h.now, job, number, used); err != nil { // its host may be given up at this time
				h.log = append(h.log, err.Error())
			}
		}
	},
	"clear usage": func(*rapid.T, *harness) func(*harness) {
		return func(h *harness) { h.mustLog(h.ClearUsage(h.now, caller("root"))) }
	},
	"set usage": func(t *rapid.T, _ *harness) func(*harness) {
		project, stamp := rapid.SampledFrom([]string{"", "p1"}).Draw(t, "project"), int64(rapid.IntRange(0, 1).Draw(t, "stamped"))*start
		return func(h *harness) {
			u := tickets.Usage{Decayed: tickets.Amounts{tickets.CPU: 77}, LongTerm: tickets.Amounts{tickets.CPU: 99}}
			for _, err := range []error{h.SetUserUsage("alice", project, u, stamp), h.SetProjectUsage("p1", u, stamp)} {
				if err != nil {
					h.log = append(h.log, err.Error())
				}
			}
		}
	},
	"qalter more": func(t *rapid.T, h *harness) func(*harness) {
		j := someJob(t, h)
		if j == nil {
			return nil
		}
		line := rapid.SampledFrom([]string{"-js 3", "-N j2", "-P p1", "-dl 202611202330", "-l gpu=1", "-q low.q", "-pe rr 2", "-m e", "-r y", "-R y", "-ot 0", "-p -9"}).Draw(t, "options")
		return func(h *harness) { h.logged(h.alter("root", line+" "+j[0].Job), nil) }
	},
	"topology": func(t *rapid.T, _ *harness) func(*harness) {
		host := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "host")
		return func(h *harness) { h.mustLog(h.HostReport(h.now, host, map[string]string{"m_topology": "SCCC"})) }
	},
	"reconfigure more": func(t *rapid.T, _ *harness) func(*harness) {
		change := rapid.SampledFrom([]files{
			{"sched_conf": strings.Replace(rich["sched_conf"], "halftime 1", "halftime 7\nhalflife_decay_list cpu=10:mem=-1", 1)},
			{"projects/p1": "", "sharetree": ""},
			{"users/alice": "", "sharetree": ""},
			{"sharetree": ""},
			{"hosts/n3": rich["hosts/n3"] + "\ncomplex_values lic=1"},
			{"users/bob": "name bob\nfshare 1"},
			{"complexes": rich["complexes"] + "\naaa aaa INT <= YES NO 0 0"},
			{"conf/global": busy["conf/global"]},
			{"queues/another.q": "qname another.q\nhostlist n1 n2\nslots 1\ninitial_state disabled\nload_thresholds NONE"},
		}).Draw(t, "change")
		return func(h *harness) { h.mustLog(h.Reconfigure(h.now, h.files.with(change).cluster(h.t))) }
	},
	"delete tasks": func(t *rapid.T, h *harness) func(*harness) {
		jobs := someJob(t, h)
		for i := range jobs {
			jobs[i].Tasks = []submit.Array{{First: 2, Last: 4, Step: 1}}
		}
		return func(h *harness) { h.logged(h.Delete(h.now, caller("root"), DeleteRequest{Jobs: jobs}), nil) }
	},
}

// kept is the content of a store.
type kept map[string]string

func (k kept) take(c *Cell) {
	for _, x := range c.Changes() {
		if x.Value == nil {
			delete(k, x.Key)
		} else {
			k[x.Key] = string(x.Value)
		}
	}
}

func (k kept) all(yield func(string, []byte) bool) {
	for key, value := range k { // in any order
		if !yield(key, []byte(value)) {
			return
		}
	}
}

// notDecayed returns the stored records without the values that depend on the current time.
func (k kept) notDecayed(t testing.TB) map[string]any {
	t.Helper()
	all := map[string]any{}
	for key, text := range k {
		var x any
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(key, userPrefix) || strings.HasPrefix(key, projectPrefix) {
			forgetDecay(x)
		}
		all[key] = x
	}
	return all
}

func forgetDecay(x any) {
	switch x := x.(type) {
	case map[string]any:
		delete(x, "stamp")
		delete(x, "decayed")
		for _, y := range x {
			forgetDecay(y)
		}
	case []any:
		for _, y := range x {
			forgetDecay(y)
		}
	}
}

// CheckRestored applies random events to a cell, restores other cells from its stored records, and
// compares their views, at once and after further events. Tests outside the package call it with
// views, which this package cannot import.
func CheckRestored(t *testing.T, show func(*Cell, int64) any) {
	all := maps.Clone(events)
	maps.Copy(all, moreEvents)
	cluster := rich.cluster(t)
	rapid.Check(t, func(r *rapid.T) {
		h := newHarnessOf(t, cluster)
		h.files = rich
		store := kept{}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			do := happen(r, h, all)
			if do == nil {
				continue
			}
			do(h)
			switch rapid.IntRange(0, 9).Draw(r, "then") {
			case 0, 1: // further events precede the saving
			case 2:
				h.Tick(h.now) // returns pending actions
				store.take(h.Cell)
				checkTwins(r, h, store, all, show)
			default:
				store.take(h.Cell)
				h.checkKept(r, store)
			}
		}
	})
}

// checkKept compares the stored records with the whole state of the cell.
func (h *harness) checkKept(r interface{ Fatalf(string, ...any) }, store kept) {
	all := kept{}
	h.touchAll()
	all.take(h.Cell)
	if diff := cmp.Diff(all.notDecayed(h.t), store.notDecayed(h.t)); diff != "" {
		r.Fatalf("- is there, + is kept:\n%s", diff)
	}
	h.checkCounted(r, store)
}

// checkTwins restores a cell, and applies the same events to both cells.
func checkTwins(r *rapid.T, h *harness, store kept, all map[string]event, show func(*Cell, int64) any) {
	if slices.ContainsFunc(h.immediate, func(j *Job) bool { return h.jobs[j.ID()] != j }) {
		return // the result of a deleted job with -now y is returned once, to the caller that waits now
	}
	copied := maps.Clone(store)
	twin := &harness{t: h.t, now: h.now, files: h.files}
	var problems []error
	twin.Cell, problems = Restore(h.now, h.cluster, Options{Managers: []string{"admin"}, Operators: []string{"oper"}}, copied.all)
	for _, err := range problems {
		r.Fatal(err)
	}
	h.log = nil
	both := func(do func(*harness)) {
		do(h)
		do(twin)
		if diff := cmp.Diff(h.log, twin.log); diff != "" {
			r.Fatalf("- the cell, + the restored one:\n%s", diff)
		}
		h.log, twin.log = nil, nil
	}
	approximately := cmpopts.EquateApprox(1e-9, 1e-9)
	loads := maps.Clone(h.loads)
	both(func(h *harness) {
		for _, host := range slices.Sorted(maps.Keys(loads)) {
			h.mustLog(h.HostReport(h.now, host, loads[host]))
		}
	})
	for range rapid.IntRange(1, 8).Draw(r, "events with a twin") {
		both(func(h *harness) { h.logRun(h.run()) })
		if diff := cmp.Diff(show(h.Cell, h.now), show(twin.Cell, h.now), approximately); diff != "" {
			r.Fatalf("- shown of the cell, + of the restored one:\n%s", diff)
		}
		if do := happen(r, h, all); do != nil {
			both(do)
		}
	}
	store.take(h.Cell)
	copied.take(twin.Cell)
	if diff := cmp.Diff(store.notDecayed(h.t), copied.notDecayed(h.t), approximately); diff != "" {
		r.Fatalf("- kept of the cell, + of the restored one:\n%s", diff)
	}
	h.checkCounted(r, store)
	twin.checkCounted(r, copied)
}
