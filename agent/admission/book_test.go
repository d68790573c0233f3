package admission

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
)

var small = files{
	"complexes":    "mem mem MEMORY <= YES YES 0 0\n",
	"hosts/n1":     "hostname n1\ncomplex_values mem=4\n",
	"queues/a.q":   "qname a.q\nhostlist n1\nslots 2\npe_list fill\n",
	"queues/b.q":   "qname b.q\nhostlist n1 n2\nslots 3\nh_rt 0:10:0\n",
	"pes/fill":     "pe_name fill\nslots 8\nallocation_rule $fill_up\n",
	"sched_conf":   "params BINDING_AWARE=true\n",
	"hosts/global": "hostname global\n",
}

func (f files) with(other files) files {
	all := files{}
	for _, m := range []files{f, other} {
		for name, text := range m {
			if text == "" {
				delete(all, name)
			} else {
				all[name] = text
			}
		}
	}
	return all
}

var idle = map[string]string{"np_load_avg": "0", "arch": "lx-amd64", "m_topology": "SCCCC", "m_topology_inuse": "ScCCC"}

var noon = time.Unix(1000, 0)

func booking(t *testing.T, id int, options, queue string) *Booking {
	t.Helper()
	b := &Booking{ID: job.ID{Job: id}, Owner: "ann", Request: ask(t, options), Grants: []Grant{{Queue: queue, Slots: 1}}}
	if p := b.Request.PE; p != nil {
		b.PE = p.Name
		b.Grants[0].Slots = p.Ranges[0].Max
	}
	return b
}

func ready(t *testing.T, f files) *Book {
	t.Helper()
	b := newBook(t, f.cluster(t), "n1")
	if problems := b.SetLoad(idle); len(problems) > 0 {
		t.Fatal(problems)
	}
	return b
}

// TestRefusals tries each cause of a refusal.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		options, queue string
		prepare        func(b *Book, x *Booking)
		want           string // "" for a job that is admitted
	}{
		"room":           {},
		"no such queue":  {queue: "c.q", want: `there is no queue instance "c.q@n1"`},
		"no resource":    {options: "-l gpu=1", want: `unknown resource "gpu"`},
		"memory":         {options: "-l mem=5", want: `(-l mem=5) cannot run at host "n1" because it offers only hc:mem=4.000`},
		"run time":       {options: "-l h_rt=601", queue: "b.q", want: `(-l h_rt=601) cannot run in queue "b.q" because of cluster queue`},
		"soft requests":  {options: "-soft -l nothing=1 -q c.q"},
		"another queue":  {options: "-q b.q", want: `cannot run in queue "a.q" because it is not contained in its hard queue list (-q)`},
		"a load value":   {options: "-l arch=sol*", want: `(-l arch=sol*) cannot run at host "n1" because it offers only hl:arch=lx-amd64`},
		"a reservation":  {options: "-ar 3"},
		"no environment": {options: "-pe fill 2", prepare: func(_ *Book, x *Booking) { x.PE = "gone" }, want: `there is no parallel environment "gone"`},
		"overloaded": {
			prepare: func(b *Book, _ *Booking) { b.SetLoad(map[string]string{"np_load_avg": "2"}) },
			want:    `queue instance "a.q@n1" dropped because it is overloaded: np_load_avg=2.000000 (no load adjustment) >= 1.75`,
		},
		"full": {
			options: "-pe fill 2", prepare: func(b *Book, _ *Booking) { _ = b.Take(booking(t, 1, "-pe fill 1", "a.q"), noon) },
			want: `cannot run in queue "a.q@n1" because it only offers 1 slots`,
		},
		"cores that jobs have": {
			options: "-binding linear:4", prepare: func(b *Book, _ *Booking) {
				x := booking(t, 1, "-binding linear:1", "a.q")
				x.Grants[0].Cores = []topology.Pair{{Core: 2}}
				_ = b.Take(x, noon)
			},
			want: `cannot run at host "n1" because its binding linear:4 does not fit the free cores SCCcC`,
		},
		"cores that others have": {
			options: "-binding linear:4", prepare: func(b *Book, _ *Booking) { b.SetTopology("SCCCC", "SCcCC") },
			want: `cannot run at host "n1" because its binding linear:4 does not fit the free cores SCcCC`,
		},
		"what the load says of cores in use": {options: "-binding linear:4"},
	} {
		t.Run(name, func(t *testing.T) {
			b := ready(t, small)
			if c.queue == "" {
				c.queue = "a.q"
			}
			x := booking(t, 7, c.options, c.queue)
			if c.prepare != nil {
				c.prepare(b, x)
			}
			before := b.dump(0)
			err := b.Admit(x, noon)
			if after := b.dump(0); after != before {
				t.Errorf("Admit has changed something: %s", cmp.Diff(before, after))
			}
			var refused *RefusedError
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, &refused) || err.Error() != c.want):
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestInvalidBookings passes invalid bookings.
func TestInvalidBookings(t *testing.T) {
	for name, edit := range map[string]func(x *Booking){
		"no request":      func(x *Booking) { x.Request = nil },
		"no grants":       func(x *Booking) { x.Grants = nil },
		"no slots":        func(x *Booking) { x.Grants[0].Slots = 0 },
		"many slots":      func(x *Booking) { x.Grants[0].Slots = 2 },
		"a queue twice":   func(x *Booking) { x.Grants = append(x.Grants, x.Grants[0]) },
		"an environment":  func(x *Booking) { x.PE = "fill" },
		"a slave of none": func(x *Booking) { x.Slave = true },
		"here already":    func(x *Booking) { x.ID = job.ID{Job: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			b := ready(t, small)
			if err := b.Take(booking(t, 1, "", "b.q"), noon); err != nil {
				t.Fatal(err)
			}
			x := booking(t, 2, "", "a.q")
			edit(x)
			var refused *RefusedError
			if err := b.Take(x, noon); err == nil || errors.As(err, &refused) {
				t.Errorf("got %v", err)
			}
			if _, used := b.Usage(); used != 1 {
				t.Errorf("%d slots are in use", used)
			}
		})
	}
}

func TestNothingIsAdmittedBeforeTheLoadIsKnown(t *testing.T) {
	b := newBook(t, small.cluster(t), "n1")
	b.SetTopology("SCC", "")
	if err := b.Admit(booking(t, 1, "", "a.q"), noon); err == nil || !strings.Contains(err.Error(), "not known yet") {
		t.Error(err)
	}
	if err := b.Start(booking(t, 1, "", "a.q")); err != nil {
		t.Error(err)
	}
	if problems := b.SetLoad(map[string]string{"np_load_avg": "x", "m_topology": "?"}); len(problems) != 1 {
		t.Error(problems)
	}
}

// TestBookWithoutNamedHosts checks that a configuration that names no host applies to every host.
func TestBookWithoutNamedHosts(t *testing.T) {
	b := newBook(t, qconf.Builtin(4), "somewhere.else")
	b.SetLoad(idle)
	x := booking(t, 1, "-pe smp 3", "all.q")
	if err := b.Take(x, noon); err != nil {
		t.Fatal(err)
	}
	if slots, used := b.Usage(); slots != 4 || used != 3 {
		t.Errorf("%d of %d slots are in use", used, slots)
	}
	if err := b.Admit(booking(t, 2, "-pe smp 2", "all.q"), noon); err == nil {
		t.Error("5 of 4 slots")
	}
}

// TestHostWithoutQueues uses a host that is not in the configuration.
func TestHostWithoutQueues(t *testing.T) {
	b := newBook(t, small.cluster(t), "n9")
	b.SetLoad(idle)
	if err := b.Admit(booking(t, 1, "", "a.q"), noon); err == nil {
		t.Error("a job is admitted")
	}
	if slots, used := b.Usage(); slots != 0 || used != 0 {
		t.Errorf("%d of %d slots are in use", used, slots)
	}
}

// TestHostNameWithAndWithoutDomain checks that the book finds its host if the configuration has the
// name with a domain and the host reports it without one, and the other way round.
func TestHostNameWithAndWithoutDomain(t *testing.T) {
	long := files{
		"hosts/N1.example.com": "hostname N1.example.com\ncomplex_values slots=2\n",
		"queues/a.q":           "qname a.q\nhostlist n1.example.com\nslots 5\n",
	}
	for name, c := range map[string]struct {
		f    files
		host string
	}{
		"without a domain": {small, "n1.example.com"}, "other letters": {small, "N1"}, "with a domain": {long, "n1"},
		"with another case": {long, "n1.EXAMPLE.com"},
	} {
		b := newBook(t, c.f.cluster(t), c.host)
		b.SetLoad(idle)
		for id := range 2 {
			if err := b.Take(booking(t, id, "", "a.q"), noon); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := b.Take(booking(t, 3, "", "a.q"), noon); err == nil {
			t.Errorf("%s: three jobs in two slots", name)
		}
		if _, err := b.Reconfigure(c.f.cluster(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, used := b.Usage(); used != 2 {
			t.Errorf("%s: %d slots are in use", name, used)
		}
	}
}

// TestReconfigure replaces the configuration while jobs run.
func TestReconfigure(t *testing.T) {
	b := ready(t, small)
	for _, x := range []*Booking{booking(t, 1, "-pe fill 2 -l mem=1 -q a.q", "a.q")} {
		if err := b.Take(x, noon); err != nil {
			t.Fatal(err)
		}
	}
	before := b.dump(0)
	for name, f := range map[string]files{
		"without the environment": small.with(files{"pes/fill": "", "queues/a.q": "qname a.q\nhostlist n1\nslots 2\n"}),
		"without the complex":     small.with(files{"complexes": "", "hosts/n1": "hostname n1\n"}),
	} {
		if _, err := b.Reconfigure(f.cluster(t)); err == nil || !strings.Contains(err.Error(), "while job 1 runs") {
			t.Errorf("%s: %v", name, err)
		}
		if after := b.dump(0); after != before {
			t.Errorf("%s: something has changed: %s", name, cmp.Diff(before, after))
		}
	}
	check := func(what string, f files, options, queue, want string) {
		t.Helper()
		if _, err := b.Reconfigure(f.cluster(t)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := ""
		if err := b.Admit(booking(t, 2, options, queue), noon); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	more := small.with(files{"queues/a.q": "qname a.q\nhostlist n1\nslots 5\npe_list fill\n"})
	check("with more slots", more, "-l mem=2", "a.q", "")
	check("what is booked counts", more, "-l mem=3", "a.q", `(-l mem=3) cannot run at host "n1" because it offers only hc:mem=2.000`)
	gone := small.with(files{"queues/a.q": "qname a.q\nhostlist NONE\n", "queues/b.q": "qname b.q\nhostlist n1\nslots 3\n"})
	check("without the queue", gone, "", "a.q", `queue instance "a.q@n1" dropped because it is temporarily not available`)
	if slots, used := b.Usage(); slots != 5 || used != 2 {
		t.Errorf("%d of %d slots are in use", used, slots)
	}
	if !b.End(job.ID{Job: 1}) || b.End(job.ID{Job: 1}) {
		t.Error("job 1 does not end once")
	}
	check("when it has ended", gone, "", "a.q", `there is no queue instance "a.q@n1"`)
	if slots, used := b.Usage(); slots != 3 || used != 0 {
		t.Errorf("in the end %d of %d slots are in use", used, slots)
	}
}

// TestBookRunningJobsAfterRestart books jobs after a restart with a changed configuration.
func TestBookRunningJobsAfterRestart(t *testing.T) {
	b := ready(t, small)
	old := booking(t, 1, "-pe gone 2 -l mem=1,gpu=1 -q old.q", "old.q")
	old.Grants[0].Names = map[string][]string{"gpu": {"g0"}}
	var refused *RefusedError
	if err := b.Start(old); !errors.As(err, &refused) {
		t.Fatalf("what is gone is not told: %v", err)
	}
	if err := b.Start(old); err == nil || errors.As(err, &refused) {
		t.Errorf("booked twice: %v", err)
	}
	known := booking(t, 2, "-q old.q", "a.q")
	if err := b.Start(known); err != nil {
		t.Error(err)
	}
	for range 3 { // more than there is room for
		known.ID.Job++
		if err := b.Start(known); err != nil {
			t.Error(err)
		}
	}
	if slots, used := b.Usage(); slots != 2+3+2 || used != 6 {
		t.Errorf("%d of %d slots are in use", used, slots)
	}
	if err := b.Admit(booking(t, 9, "-l mem=3", "b.q"), noon); err == nil || !strings.Contains(err.Error(), "hc:mem=2.000") {
		t.Errorf("its memory is not counted: %v", err)
	}
	if _, err := b.Reconfigure(small.cluster(t)); err != nil {
		t.Error(err)
	}
	for id := 1; id <= 5; id++ {
		if !b.End(job.ID{Job: id}) {
			t.Errorf("job %d is not booked", id)
		}
	}
	if _, err := b.Reconfigure(small.cluster(t)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(ready(t, small).dump(0), b.dump(0)); diff != "" {
		t.Error(diff)
	}
}

// TestSeveralGoroutines uses one book in several goroutines: nothing is booked twice, and at the
// end nothing is booked.
func TestSeveralGoroutines(t *testing.T) {
	b := ready(t, small)
	cluster := small.cluster(t)
	var group sync.WaitGroup
	for n := range 8 {
		x := booking(t, n, "-l mem=1", []string{"a.q", "b.q"}[n%2])
		group.Go(func() {
			for range 50 {
				err := b.Take(x, noon)
				if slots, used := b.Usage(); used > slots || used > 4 {
					t.Errorf("%d of %d slots are in use, with 1 of 4 of mem each", used, slots)
				}
				if b.End(x.ID) != (err == nil) {
					t.Errorf("job %s ends, and was booked with %v", x.ID, err)
				}
			}
		})
	}
	group.Go(func() {
		for range 20 {
			b.SetLoad(idle)
			b.SetTopology("SCCCC", "")
			if _, err := b.Reconfigure(cluster); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	if _, used := b.Usage(); used != 0 {
		t.Errorf("%d slots are in use in the end", used)
	}
}
