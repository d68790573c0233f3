package scheduler_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/scheduler"
)

// topologies are those of the hosts of the property tests; n4 reports none.
var topologies = []string{"SCCSCC", "SCCCC", "SCTTCTTCTT", ""}

// bound is a cluster in which jobs with bindings come and go.
type bound struct {
	*scheduler.State
	t       *rapid.T
	now     int64
	id      uint32
	plans   bool
	waiting []*scheduler.Job
	running []*scheduler.Running
	foreign [][]topology.Pair // by host: cores of somebody else
}

func (b *bound) drawRequest() binding.Request {
	r := binding.Request{Strategy: rapid.SampledFrom([]binding.Strategy{binding.None, binding.Linear, binding.Striding, binding.Explicit}).Draw(b.t, "strategy")}
	r.Amount, r.Step = rapid.IntRange(1, 5).Draw(b.t, "amount"), rapid.IntRange(1, 3).Draw(b.t, "step")
	if r.Strategy == binding.Linear {
		r.Slots = rapid.Bool().Draw(b.t, "slots")
	}
	core := func() topology.Pair {
		return topology.Pair{Socket: rapid.IntRange(0, 1).Draw(b.t, "socket"), Core: rapid.IntRange(0, 3).Draw(b.t, "core")}
	}
	if r.Strategy == binding.Explicit {
		r.Pairs = rapid.SliceOfNDistinct(rapid.Custom(func(*rapid.T) topology.Pair { return core() }), 1, 3, func(p topology.Pair) topology.Pair { return p }).Draw(b.t, "cores")
	} else if r.HasStart = rapid.Bool().Draw(b.t, "start"); r.HasStart {
		p := core()
		r.Socket, r.Core = p.Socket, p.Core
	}
	return r
}

func (b *bound) submit(t testing.TB) {
	r := &scheduler.Requests{User: "u", Binding: b.drawRequest()}
	if seconds := rapid.SampledFrom([]string{"", "60", "600"}).Draw(b.t, "h_rt"); seconds != "" {
		r.Hard = request("h_rt", seconds)
	}
	if r.PE = rapid.SampledFrom([]string{"", "", "fill", "two", "one"}).Draw(b.t, "pe"); r.PE != "" {
		first := rapid.IntRange(1, 4).Draw(b.t, "least")
		r.Slots = fromTo(t, first, first+rapid.IntRange(0, 4).Draw(b.t, "more"))
	}
	c, err := b.Model().Category(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.id++
	j := &scheduler.Job{ID: b.id, Category: c, Owner: "u", Submitted: b.now, Tasks: exactly(t, 1), Reserve: rapid.Bool().Draw(b.t, "reserve")}
	submit(b.t, b.State, j)
	b.waiting = append(b.waiting, j)
}

func (b *bound) end() {
	if len(b.running) == 0 {
		return
	}
	i := rapid.IntRange(0, len(b.running)-1).Draw(b.t, "task")
	if err := b.End(b.running[i]); err != nil {
		b.t.Fatal(err)
	}
	b.running = slices.Delete(b.running, i, i+1)
}

// report makes a host report the cores in use: those of its tasks, and others that no task has.
func (b *bound) report() {
	h := scheduler.HostID(rapid.IntRange(0, len(topologies)-1).Draw(b.t, "host"))
	shape, err := topology.ParseShape(topologies[h])
	if err != nil || len(shape) == 0 {
		return
	}
	taken := b.taken(h)
	b.foreign[h] = nil
	for s := range shape {
		for c := range shape[s] {
			if p := (topology.Pair{Socket: s, Core: c}); !slices.Contains(taken, p) && rapid.IntRange(0, 5).Draw(b.t, "foreign") == 0 {
				b.foreign[h] = append(b.foreign[h], p)
			}
		}
	}
	inUse := shape.With(func(p topology.Pair) bool { return slices.Contains(taken, p) || slices.Contains(b.foreign[h], p) })
	if err := b.SetLoad(b.Model().HostName(h), map[string]string{"m_topology": topologies[h], "m_topology_inuse": inUse.String()}); err != nil {
		b.t.Fatal(err)
	}
}

// taken returns the cores of a host that tasks have, each once for every task that has it.
func (b *bound) taken(h scheduler.HostID) (all []topology.Pair) {
	for _, r := range b.running {
		for _, g := range r.Grants {
			if b.Model().HostOf(g.Instance) == h {
				all = append(all, g.Cores...)
			}
		}
	}
	return all
}

func (b *bound) shapes() (all []string) {
	for h := range topologies {
		shape, _ := b.FreeCores(scheduler.HostID(h))
		all = append(all, shape.String())
	}
	return all
}

func (b *bound) run() {
	before := b.shapes()
	d := b.Run(b.now)
	if after := b.shapes(); !slices.Equal(before, after) {
		b.t.Fatalf("a run leaves %v, before it were %v", after, before)
	}
	for _, x := range d.Starts {
		b.check(x.Job.Category.Requests(), x.Grants)
		r := &scheduler.Running{Job: x.Job, Task: x.Task, Started: b.now, PE: x.PE, Grants: x.Grants, Limit: x.Duration}
		if reasons, err := b.Admit(r, b.now); err != nil || len(reasons) > 0 {
			b.t.Fatalf("what the run decides is refused: %q, %v", texts(reasons), err)
		}
		if err := b.Start(r); err != nil {
			b.t.Fatal(err)
		}
		b.Dequeue(x.Job)
		b.running = append(b.running, r)
		b.waiting = slices.DeleteFunc(b.waiting, func(j *scheduler.Job) bool { return j == x.Job })
	}
	for _, x := range d.Reservations {
		b.check(x.Job.Category.Requests(), x.Grants)
	}
	if !b.plans {
		b.noneCouldStart()
	}
}

// check compares what a task gets with what it asked for.
func (b *bound) check(r *scheduler.Requests, grants []scheduler.Grant) {
	slots, got := map[scheduler.HostID]int{}, map[scheduler.HostID]int{}
	for _, g := range grants {
		h := b.Model().HostOf(g.Instance)
		slots[h] += g.Slots
		got[h] += len(g.Cores)
		if r.Binding.Strategy == binding.Explicit && len(g.Cores) > 0 && !slices.Equal(g.Cores, r.Binding.Pairs) {
			b.t.Errorf("%v got the cores %v", r.Binding, g.Cores)
		}
	}
	for h, n := range slots {
		want := r.Binding.Amount
		switch {
		case r.Binding.Strategy == binding.None || topologies[h] == "":
			want = 0
		case r.Binding.Strategy == binding.Explicit:
			want = len(r.Binding.Pairs)
		case r.Binding.Slots:
			want = n
		}
		if got[h] != want {
			b.t.Errorf("%v with %d slots got %d cores of %s", r.Binding, n, got[h], b.Model().HostName(h))
		}
	}
}

// noneCouldStart checks that no serial job waits for which there are a slot and cores.
func (b *bound) noneCouldStart() {
	for _, j := range b.waiting {
		r := j.Category.Requests()
		for h := range topologies {
			if r.PE != "" || !b.anySlot(scheduler.HostID(h)) {
				continue
			}
			shape, ok := b.FreeCores(scheduler.HostID(h))
			if !ok {
				b.t.Fatalf("job %d waits though host %d has slots and no topology", j.ID, h)
			}
			var t topology.Topology
			used := binding.InUse{}
			used.Add(shape.InUse())
			for _, cores := range shape {
				t.Sockets = append(t.Sockets, topology.Socket{Cores: make([]topology.Core, len(cores))})
			}
			if c, err := binding.Choose(t, used, r.Binding, 1); err == nil {
				b.t.Fatalf("job %d waits though host %d has the cores %v of %v", j.ID, h, c.Cores, shape)
			}
		}
	}
}

func (b *bound) anySlot(h scheduler.HostID) bool {
	for _, id := range b.Model().InstancesOn(h) {
		if b.UsedSlots(id) < 8 {
			return true
		}
	}
	return false
}

// neverShared checks that no core has two tasks, and that there is no task on a core that
// the host does not have or that was somebody else's when it started.
func (b *bound) neverShared() {
	for h := range topologies {
		taken := b.taken(scheduler.HostID(h))
		shape, _ := topology.ParseShape(topologies[h])
		for i, p := range taken {
			switch {
			case slices.Contains(taken[:i], p):
				b.t.Fatalf("core %v of host %d has two tasks", p, h)
			case p.Socket >= len(shape) || p.Core >= len(shape[p.Socket]):
				b.t.Fatalf("host %d has no core %v", h, p)
			case slices.Contains(b.foreign[h], p):
				b.t.Fatalf("core %v of host %d is somebody else's", p, h)
			}
		}
	}
}

func TestCoresAreNeverShared(t *testing.T) {
	for what, sched := range map[string]string{
		"at once":     aware,
		"planned for": "params BINDING_AWARE=true,DURATION_OFFSET=10\nmax_reservation 3\ndefault_duration 0:5:0",
	} {
		t.Run(what, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b := &bound{State: cores(t, sched, topologies...), t: rt, plans: sched != aware, foreign: make([][]topology.Pair, len(topologies))}
				for range rapid.IntRange(1, 25).Draw(rt, "events") {
					rapid.SampledFrom([]func(){
						func() { b.submit(t) },
						func() { b.submit(t) },
						b.end,
						b.report,
						b.run,
						func() { b.now += int64(rapid.IntRange(1, 400).Draw(rt, "seconds")) },
					}).Draw(rt, "event")()
					b.neverShared()
				}
				b.run()
				b.neverShared()
			})
		})
	}
}

// TestSwitchedOffBindingsChangeNothing checks that without the switch decisions are those of a cluster
// in which no job requests cores.
func TestSwitchedOffBindingsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		with := &bound{State: cores(t, unaware, topologies...), t: rt}
		without := cores(t, unaware, topologies...)
		for range rapid.IntRange(1, 40).Draw(rt, "jobs") {
			with.submit(t)
			j := with.waiting[len(with.waiting)-1]
			r := *j.Category.Requests()
			r.Binding = binding.Request{}
			c, err := without.Model().Category(&r)
			if err != nil {
				rt.Fatal(err)
			}
			submit(t, without, &scheduler.Job{ID: j.ID, Category: c, Owner: j.Owner, Tasks: j.Tasks})
		}
		got, want := with.Run(0), without.Run(0)
		if len(got.Starts) != len(want.Starts) {
			rt.Fatalf("%d starts, want %d", len(got.Starts), len(want.Starts))
		}
		for i := range got.Starts {
			if g, w := granted(with.State, got.Starts[i].Grants), granted(without, want.Starts[i].Grants); g != w || got.Starts[i].Job.ID != want.Starts[i].Job.ID {
				rt.Errorf("start %d: job %d got %s, want %s", i, got.Starts[i].Job.ID, g, w)
			}
		}
	})
}
