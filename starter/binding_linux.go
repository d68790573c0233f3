package starter

import (
	"errors"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// bind restricts the supervisor, and so everything that it starts, to the cores that were granted
// to the job (sge_submit(1), -binding), otherwise to the processors of its queue (queue_conf(5)).
// Both are hints: a job that cannot be bound runs unbound.
//
// A control group of the job whose cpuset has the same processors keeps this affinity. A cpuset
// with other processors resets it, see startJob.
func (s *Shepherd) bind() {
	b, err := s.cores()
	if err != nil {
		s.trace("not bound to cores: " + err.Error())
	}
	if text := b.Environment(); text != "" {
		s.jobEnv.set("SGE_BINDING", text) // a real execd leaves this to the supervisor
		s.trusted.set("SGE_BINDING", text)
	}
	cpus, what := b.CPUs, "processors "
	switch {
	case b.Binds():
	case s.d.BindingMask != "":
		if cpus, err = topology.ParseMask(s.d.BindingMask); err != nil {
			s.trace(err.Error())
		}
	default:
		what = "the queue's processors "
		if cpus, err = binding.Processors(s.d.Processors); err != nil {
			s.trace(err.Error())
		}
	}
	if cpus.IsEmpty() {
		return
	}
	// The affinity is this thread's. Children are started by this thread and inherit it.
	if err := limits.SetAffinity(cpus); err != nil {
		s.trace("cannot bind to " + what + cpus.String() + ": " + err.Error())
		return
	}
	s.trace("bound to " + what + cpus.String())
	s.bound = cpus
}

// cores returns the cores that were granted to the job. The execd agent records which processors
// these are. A real execd does not: its core numbers are resolved against the processors that this
// process may use, that is, those of its container.
func (s *Shepherd) cores() (binding.Binding, error) {
	c, err := binding.ParseConfig(s.d.Binding)
	if err != nil || c.Strategy == binding.None {
		return binding.Binding{}, err
	}
	if s.d.BindingCPUs != "" {
		cpus, err := topology.ParseList(s.d.BindingCPUs)
		return binding.Binding{Instance: c.Instance, Cores: c.Pairs, CPUs: cpus}, err
	}
	b, err := s.coresOf(c, true)
	if no, ok := errors.AsType[*binding.RefusedError](err); ok && no.Reason == binding.OtherHost {
		// The daemon of a real execd may be allowed more processors than this process.
		b, err = s.coresOf(c, false)
	}
	return b, err
}

func (s *Shepherd) coresOf(c binding.Config, own bool) (binding.Binding, error) {
	var allowed topology.Allowed
	if own {
		allowed.CPUs, _ = limits.Affinity() // on an error: all processors
	}
	t, err := topology.Read(oslite.Read, allowed)
	if err != nil {
		return binding.Binding{}, err
	}
	return c.Resolve(t)
}
