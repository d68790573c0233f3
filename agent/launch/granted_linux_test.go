package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// TestGrantedBinding checks that a job is bound to the threads that its master has chosen, and
// otherwise is not bound.
func TestGrantedBinding(t *testing.T) {
	top, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	threads := top.NumThreads()
	tree := func(first string) string { return "(S(C(" + first + ")" + strings.Repeat("(T)", threads-1) + "))" }
	core, _ := top.Core(top.Pairs()[0])
	first := topology.Of(core.CPUs.First())
	choose := func(g *GrantedBinding) bound {
		p := &Plan{Description: &job.Description{}, GrantedBinding: g}
		return p.chooseProcessors(nil)
	}
	b := choose(&GrantedBinding{Trees: []string{tree("T"), tree("t")}})
	if b.why != "" || !b.cores.CPUs.Equal(first) || !b.affinity.CPUs.Equal(first) {
		t.Errorf("it is bound to %s, %s: %s", b.cores.CPUs, b.affinity.CPUs, b.why)
	}
	want := []string{"SGE_BINDING_INSTANCE=set", "SGE_BINDING_TOPOLOGY=" + top.MarkedShape(first), "SGE_BINDING_CPUSET=" + hwlocMask(first)}
	if !slices.Equal(b.variables, want) {
		t.Errorf("it is told %q, want %q", b.variables, want)
	}
	if b := choose(&GrantedBinding{Instance: binding.Env, Trees: []string{tree("t")}}); !b.affinity.CPUs.IsEmpty() || b.variables[0] != "SGE_BINDING_INSTANCE=env" {
		t.Errorf("one that is only told of is bound to %s, and told %q", b.affinity.CPUs, b.variables)
	}
	none := []string{"SGE_BINDING_INSTANCE=set", "SGE_BINDING_TOPOLOGY=NONE", "SGE_BINDING_CPUSET=0x0"}
	if b := choose(&GrantedBinding{}); b.why != "" || !b.cores.CPUs.IsEmpty() || !slices.Equal(b.variables, none) {
		t.Errorf("without a choice: %+v", b)
	}
	other := choose(&GrantedBinding{Trees: []string{tree("t") + "(S(C(t)))"}})
	if !strings.Contains(other.why, "threads, and this host has") || !other.affinity.CPUs.IsEmpty() || !slices.Equal(other.variables, none) {
		t.Errorf("a choice for another host: %+v", other)
	}
}

func TestHwlocMask(t *testing.T) {
	for want, cpus := range map[string]topology.CPUSet{
		"0x0": {}, "0x00000001": topology.Of(0), "0x00000001,0x0": topology.Of(32), "0x00000002,,0x80000000": topology.Of(65, 31),
	} {
		if got := hwlocMask(cpus); got != want {
			t.Errorf("the mask of %s is %s, want %s", cpus, got, want)
		}
	}
}
