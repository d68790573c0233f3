package starter

import (
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// bind binds the shepherd, and with that everything that it starts, to the
// cores that were chosen for the job (sge_submit(1), -binding). It is a hint: a
// job whose cores are not to be had runs unbound.
func (s *Shepherd) bind() {
	c, err := binding.ParseConfig(s.d.Binding)
	if err != nil {
		s.trace("not bound: " + err.Error())
		return
	}
	if len(c.Pairs) == 0 && c.Amount == 0 {
		return
	}
	t, err := topology.Read(oslite.Read, topology.Allowed{})
	if err != nil {
		s.trace("not bound: " + err.Error())
		return
	}
	b, err := c.Resolve(t)
	if err != nil {
		s.trace("not bound: " + err.Error())
		return
	}
	if text := b.Environment(); text != "" {
		s.jobEnv.set("SGE_BINDING", text) // a real execd leaves it to us
	}
	if !b.Binds() {
		return
	}
	var set unix.CPUSet
	for cpu := range b.CPUs.All {
		set.Set(cpu)
	}
	// Of this thread: children are started by it and inherit.
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		s.trace("not bound to processors " + b.CPUs.String() + ": " + err.Error())
		return
	}
	s.trace("bound to processors " + b.CPUs.String())
}
