package starter

import (
	"errors"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// bind restricts the shepherd, and with that everything that it starts, to the
// cores that were chosen for the job (sge_submit(1), -binding), or else to the
// processors of its queue (queue_conf(5)). Both are hints: a job that cannot be
// bound runs unbound.
//
// A group of the job with a cpuset of the same processors changes nothing about
// it. One without forgets it, see startJob.
func (s *Shepherd) bind() {
	b, err := s.cores()
	if err != nil {
		s.trace("not bound to cores: " + err.Error())
	}
	if text := b.Environment(); text != "" {
		s.jobEnv.set("SGE_BINDING", text) // a real execd leaves it to us
		s.trusted.set("SGE_BINDING", text)
	}
	cpus, what := b.CPUs, "processors "
	if !b.Binds() {
		what = "the queue's processors "
		if cpus, err = binding.Processors(s.d.Processors); err != nil {
			s.trace(err.Error())
		}
	}
	if cpus.IsEmpty() {
		return
	}
	// Of this thread: children are started by it and inherit.
	if err := limits.SetAffinity(cpus); err != nil {
		s.trace("cannot bind to " + what + cpus.String() + ": " + err.Error())
		return
	}
	s.trace("bound to " + what + cpus.String())
	s.bound = cpus
}

// cores returns the cores that were chosen for the job. Our own agent says which
// processors these are. A real execd does not: its numbers of cores are looked up
// among the processors that we may use, as those of its container.
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
		// Its daemon may use more than what somebody has restricted us to.
		b, err = s.coresOf(c, false)
	}
	return b, err
}

func (s *Shepherd) coresOf(c binding.Config, own bool) (binding.Binding, error) {
	var allowed topology.Allowed
	if own {
		allowed.CPUs, _ = limits.Affinity() // else all
	}
	t, err := topology.Read(oslite.Read, allowed)
	if err != nil {
		return binding.Binding{}, err
	}
	return c.Resolve(t)
}
