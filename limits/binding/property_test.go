package binding

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/limits/topology"
)

func drawHost(t *rapid.T, tb testing.TB) topology.Topology {
	var b strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "sockets") {
		b.WriteByte('S')
		for range rapid.IntRange(1, 6).Draw(t, "cores") {
			b.WriteString(rapid.SampledFrom([]string{"C", "CTT", "CTTTT"}).Draw(t, "core"))
		}
	}
	top, _ := host(tb, b.String())
	return top
}

func drawRequest(t *rapid.T) (r Request, slots int) {
	core := rapid.Custom(func(t *rapid.T) topology.Pair {
		return topology.Pair{Socket: rapid.IntRange(0, 4).Draw(t, "socket"), Core: rapid.IntRange(0, 6).Draw(t, "core")}
	})
	r.Instance = rapid.SampledFrom([]Instance{Set, Env, PE}).Draw(t, "instance")
	r.Strategy = rapid.SampledFrom([]Strategy{Linear, Striding, Explicit}).Draw(t, "strategy")
	r.Amount = rapid.IntRange(0, 8).Draw(t, "amount")
	r.Slots = r.Strategy == Linear && rapid.Bool().Draw(t, "slots")
	r.Step = rapid.IntRange(0, 5).Draw(t, "step")
	if r.HasStart = rapid.Bool().Draw(t, "start"); r.HasStart {
		p := core.Draw(t, "first")
		r.Socket, r.Core = p.Socket, p.Core
	}
	r.Pairs = rapid.SliceOfN(core, 0, 4).Draw(t, "pairs")
	return r, rapid.IntRange(0, 8).Draw(t, "slots of the job")
}

// wanted returns the number of cores of a request.
func wanted(r Request, slots int) int {
	switch {
	case r.Strategy == Explicit:
		return len(r.Pairs)
	case r.Slots:
		return max(slots, 1)
	default:
		return r.Amount
	}
}

func TestJobsNeverShareACore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		top := drawHost(rt, t)
		used := make(InUse)
		var jobs []Binding
		for range rapid.IntRange(1, 20).Draw(rt, "events") {
			if len(jobs) > 0 && rapid.IntRange(0, 3).Draw(rt, "end") == 0 {
				i := rapid.IntRange(0, len(jobs)-1).Draw(rt, "job")
				used.Remove(jobs[i].Cores)
				jobs = slices.Delete(jobs, i, i+1)
				continue
			}
			r, slots := drawRequest(rt)
			before := maps.Clone(used)
			b, err := Choose(top, used, r, slots)
			if !maps.Equal(before, used) {
				rt.Fatal("choosing changed what is in use")
			}
			if err != nil {
				var no *RefusedError
				if !errors.As(err, &no) || len(b.Cores) > 0 {
					rt.Fatalf("got %v with %v", b.Cores, err)
				}
				checkRefusal(rt, top, used, r, slots, no)
				continue
			}
			checkBinding(rt, top, used, r, slots, b)
			used.Add(b.Cores)
			after := maps.Clone(used)
			after.Remove(b.Cores)
			if !maps.Equal(after, before) {
				rt.Fatalf("an end leaves %v, before the start it was %v", after, before)
			}
			jobs = append(jobs, b)
		}
		var all topology.CPUSet
		n := 0
		for _, b := range jobs {
			all, n = all.Union(b.CPUs), n+b.CPUs.Len()
		}
		if all.Len() != n {
			rt.Fatalf("%d processors are given %d times", all.Len(), n)
		}
		// The agent's state after a restart.
		rebuilt := make(InUse)
		for _, b := range jobs {
			c, err := ParseConfig(b.Config())
			if err != nil {
				rt.Fatal(err)
			}
			again, err := c.Resolve(top)
			if err != nil || again.Config() != b.Config() || !again.CPUs.Equal(b.CPUs) {
				rt.Fatalf("%s is %s after a restart, %v", b.Config(), again.Config(), err)
			}
			rebuilt.Add(again.Cores)
		}
		if !maps.Equal(rebuilt, used) {
			rt.Fatalf("after a restart %v are in use, before %v", rebuilt, used)
		}
	})
}

func checkBinding(t *rapid.T, top topology.Topology, used InUse, r Request, slots int, b Binding) {
	if len(b.Cores) != wanted(r, slots) {
		t.Fatalf("%v with %d slots: got %d cores", r, slots, len(b.Cores))
	}
	all := top.Pairs()
	threads := 0
	for i, p := range b.Cores {
		core, ok := top.Core(p)
		if !ok || used.Has(p) || slices.Contains(b.Cores[:i], p) || !core.CPUs.SubsetOf(b.CPUs) {
			t.Fatalf("%v: core %v is none, in use, twice, or not whole", r, p)
		}
		threads += core.CPUs.Len()
		if stride := r.Strategy == Striding || r.Strategy == Linear && r.HasStart; stride && i > 0 {
			step := 1
			if r.Strategy == Striding {
				step = r.Step
			}
			if slices.Index(all, p)-slices.Index(all, b.Cores[i-1]) != step {
				t.Fatalf("%v: wrong distance in %v", r, b.Cores)
			}
		}
	}
	if b.CPUs.Len() != threads {
		t.Fatalf("%v: processors %v for cores %v", r, b.CPUs, b.Cores)
	}
	if r.Strategy == Explicit && !slices.Equal(b.Cores, r.Pairs) {
		t.Fatalf("asked for %v, got %v", r.Pairs, b.Cores)
	}
	if r.Strategy != Explicit && r.HasStart && b.Cores[0] != (topology.Pair{Socket: r.Socket, Core: r.Core}) {
		t.Fatalf("%v starts at %v", r, b.Cores[0])
	}
}

// checkRefusal verifies a refusal by trying all possibilities.
func checkRefusal(t *rapid.T, top topology.Topology, used InUse, r Request, slots int, no *RefusedError) {
	n := wanted(r, slots)
	free := slices.DeleteFunc(top.Pairs(), used.Has)
	switch no.Reason {
	case Malformed:
		distinct := map[topology.Pair]bool{}
		for _, p := range r.Pairs {
			distinct[p] = true
		}
		if n > 0 && (r.Strategy != Striding || r.Step > 0) && (r.Strategy != Explicit || len(distinct) == n) {
			t.Fatalf("%v makes sense", r)
		}
	case NoSuchCore:
		if _, ok := top.Core(no.Core); ok {
			t.Fatalf("%v: core %v exists", r, no.Core)
		}
	case CoreInUse:
		if !used.Has(no.Core) {
			t.Fatalf("%v: core %v is free", r, no.Core)
		}
	case TooFewCores:
		// The same refusal must occur on an idle host.
		var again *RefusedError
		if _, err := Choose(top, nil, r, slots); !errors.As(err, &again) || again.Reason != TooFewCores {
			t.Fatalf("%v: too few cores on a busy host, on an idle one %v", r, err)
		}
	case TooFewFree:
		if r.Strategy == Linear && n <= len(free) {
			t.Fatalf("%v: %d cores are free", r, len(free))
		}
		if r.Strategy == Striding {
			all := top.Pairs()
			for i := range all {
				fits := true
				for k := range n {
					fits = fits && i+k*r.Step < len(all) && !used.Has(all[i+k*r.Step])
				}
				if fits {
					t.Fatalf("%v: possible from %v", r, all[i])
				}
			}
		}
	default:
		t.Fatalf("%v: reason %v", r, no.Reason)
	}
}

func TestConfigParsesWhatItPrints(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, _ := drawRequest(rt)
		c := Config{Instance: r.Instance, Strategy: r.Strategy}
		switch r.Strategy {
		case Explicit:
			if c.Pairs = r.Pairs; len(c.Pairs) == 0 {
				rt.Skip("no cores")
			}
		case Striding:
			c.Step = r.Step + 1
			fallthrough
		default:
			c.Amount, c.Start = r.Amount+1, topology.Pair{Socket: r.Socket, Core: r.Core}
		}
		if rapid.Bool().Draw(rt, "topology") {
			c.Shape = drawHost(rt, t).Shape()
		}
		got, err := ParseConfig(c.String())
		if err != nil || got.String() != c.String() || got.Instance != c.Instance || got.Strategy != c.Strategy ||
			got.Amount != c.Amount || got.Step != c.Step || got.Start != c.Start || !slices.Equal(got.Pairs, c.Pairs) ||
			(got.Shape == nil) != (c.Shape == nil) {
			rt.Fatalf("%s reads as %+v, %v", c, got, err)
		}
	})
}
