package binding

import (
	"slices"

	"github.com/execd-project/execd/limits/topology"
)

// Binding holds the cores of one job on one host. The zero value is no binding.
type Binding struct {
	Instance Instance
	Cores    []topology.Pair // in the order in which they were chosen
	// CPUs are all threads of the cores, in the operating system's numbers. The job is bound to
	// these.
	CPUs topology.CPUSet
	// Mems are the memory nodes of the cores, for a cpuset. It is empty if they are unknown; memory
	// is then not restricted.
	Mems topology.CPUSet
	// Shape is the host's topology, with only this job's cores in lower case.
	Shape topology.Shape
}

func bind(t topology.Topology, instance Instance, cores []topology.Pair) Binding {
	return Binding{
		Instance: instance,
		Cores:    cores,
		CPUs:     t.CPUs(cores),
		Shape:    t.Shape().With(func(p topology.Pair) bool { return slices.Contains(cores, p) }),
	}
}

// OfProcessors returns a binding to processors that the caller has chosen. They need not be whole
// cores: Cores lists every core with at least one of the processors.
func OfProcessors(t topology.Topology, instance Instance, cpus topology.CPUSet) Binding {
	b := bind(t, instance, t.With(cpus))
	b.CPUs, b.Mems = cpus, t.MemsOf(cpus)
	return b
}

// Binds reports whether the agent restricts the job to CPUs. With the instances Env and PE the
// agent only passes the cores to the job.
func (b Binding) Binds() bool { return b.Instance == Set && len(b.Cores) > 0 }

// Config returns the value of "binding" in the config file of the job directory: the cores in
// explicit form and the topology string, as in "explicit:0,0:0,1:Scc"; with the prefix "env_" or
// "pe_" for those instances; "NULL" for no binding. All strategies use the explicit form, the only
// one for which the original's shepherd binds correctly.
func (b Binding) Config() string {
	if len(b.Cores) == 0 {
		return Config{}.String()
	}
	return Config{Instance: b.Instance, Strategy: Explicit, Pairs: b.Cores, Shape: b.Shape}.String()
}

// Environment returns the value of SGE_BINDING: the processor numbers in ascending
// order, separated by spaces, for every instance; "" for no binding.
func (b Binding) Environment() string { return b.CPUs.Fields() }

// HostfileColumn returns the fourth column of the pe_hostfile, "0,0:0,1", for the instance PE
// (sge_pe(5)). It is "" for the other instances: the column then contains the queue's processors.
func (b Binding) HostfileColumn() string {
	if b.Instance != PE {
		return ""
	}
	return topology.FormatPairs(b.Cores)
}

// TopologyInUse returns the load value m_topology_inuse: the topology string with
// the cores of all jobs in lower case.
func TopologyInUse(t topology.Topology, used InUse) string {
	return t.Shape().With(used.Has).String()
}
