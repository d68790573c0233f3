package launch

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/submit"
)

// chooseCores chooses the cores for a job, among those that no other job of the
// spool area is bound to (sge_submit(1), -binding). Why there are none, if so,
// is the second result: the job then runs unbound.
func (o *Order) chooseCores(spool *jobdir.Spool) (binding.Binding, string) {
	if o.Request.Binding == nil || !o.Config.ExecdParams.EnableBinding {
		return binding.Binding{}, ""
	}
	t, err := readTopology()
	if err != nil {
		return binding.Binding{}, err.Error()
	}
	b, err := binding.Choose(t, coresInUse(spool, t), bindingRequest(o.Request.Binding), o.Slots)
	if err != nil {
		return binding.Binding{}, err.Error()
	}
	return b, ""
}

// readTopology reads the processors of this host that we may use ourselves.
func readTopology() (topology.Topology, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return topology.Topology{}, os.NewSyscallError("sched_getaffinity", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	allowed := topology.Allowed{CPUs: topology.Of(cpus...)}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if _, rest, ok := bytes.Cut(status, []byte("\nMems_allowed_list:")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			if mems, err := topology.ParseList(string(bytes.TrimSpace(line))); err == nil {
				allowed.Mems = mems
			}
		}
	}
	return topology.Read(os.ReadFile, allowed)
}

// coresInUse are the cores of the other jobs that have not ended.
func coresInUse(spool *jobdir.Spool, t topology.Topology) binding.InUse {
	used := make(binding.InUse)
	ids, err := spool.Jobs()
	if err != nil {
		return used
	}
	for _, id := range ids {
		if b, ok := boundTo(spool, id, t); ok {
			used.Add(b.Cores)
		}
	}
	return used
}

func boundTo(spool *jobdir.Spool, id job.ID, t topology.Topology) (binding.Binding, bool) {
	dir, err := spool.Open(id)
	if err != nil {
		return binding.Binding{}, false
	}
	defer dir.Close()
	if _, ended, err := dir.ExitStatus(); err != nil || ended {
		return binding.Binding{}, false
	}
	d, err := dir.Description()
	if err != nil {
		return binding.Binding{}, false
	}
	c, err := binding.ParseConfig(d.Binding)
	if err != nil {
		return binding.Binding{}, false
	}
	b, err := c.Resolve(t)
	return b, err == nil
}

// bindingRequest translates what submit has read.
func bindingRequest(s *submit.Binding) binding.Request {
	r := binding.Request{Amount: s.Amount, Step: s.Step, Slots: s.Strategy == submit.Linear && s.Amount == 0}
	switch s.Instance {
	case submit.BindEnv:
		r.Instance = binding.Env
	case submit.BindPE:
		r.Instance = binding.PE
	}
	switch s.Strategy {
	case submit.Linear:
		r.Strategy = binding.Linear
	case submit.Striding:
		r.Strategy = binding.Striding
	case submit.Explicit:
		r.Strategy = binding.Explicit
	}
	if s.Start != nil {
		r.HasStart, r.Socket, r.Core = true, s.Start.Socket, s.Start.Core
	}
	for _, c := range s.Cores {
		r.Pairs = append(r.Pairs, topology.Pair{Socket: c.Socket, Core: c.Core})
	}
	return r
}
