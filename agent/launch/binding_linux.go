package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/submit"
)

// bound holds the processors of this host that were assigned to a job.
type bound struct {
	cores    binding.Binding
	affinity binding.Affinity
	// why says why the job did not get the requested cores or the processors of its queue; it is
	// empty if the job got them.
	why string
	// variables tell the job what the master has chosen; none where this host chooses.
	variables []string
}

// variables are those of Open Cluster Scheduler 9.1.
func (g *GrantedBinding) variables(shape string, cpus topology.CPUSet) []string {
	return []string{
		"SGE_BINDING_INSTANCE=" + g.Instance.String(), "SGE_BINDING_TOPOLOGY=" + shape, "SGE_BINDING_CPUSET=" + hwlocMask(cpus),
	}
}

// hwlocMask writes processors as hwloc(7) does: groups of 32 bits, the highest first, from the first that
// is not empty. An empty group has no digits, but the last one.
func hwlocMask(cpus topology.CPUSet) string {
	const empty = "00000000"
	groups := strings.Split(cpus.Mask(), ",")
	for i, g := range groups {
		switch {
		case g != empty:
			groups[i] = "0x" + g
		case i == len(groups)-1:
			groups[i] = "0x0"
		default:
			groups[i] = ""
		}
	}
	return strings.Join(groups, ",")
}

// chooseProcessors chooses cores for a job among those to which no other job of the spool area is
// bound (sge_submit(1), -binding), or otherwise returns the processors of its queue (queue_conf(5),
// processors). If the job requests cores, the caller holds Spool.LockJobs until the job has a
// directory.
func (p *Plan) chooseProcessors(spool *jobdir.Spool) bound {
	queue, err := binding.Processors(p.Description.Processors)
	if err != nil {
		return bound{why: err.Error()}
	}
	var b bound
	granted := p.GrantedBinding
	if granted != nil {
		b.variables = granted.variables("NONE", topology.CPUSet{})
	}
	chosen := granted != nil && len(granted.Trees) > 0
	if p.Cores == nil && !chosen && queue.IsEmpty() {
		return b
	}
	t, err := readTopology()
	if err != nil {
		b.why = err.Error()
		return b
	}
	if chosen {
		cpus, err := t.Marked(granted.Trees...)
		switch {
		case err != nil:
			b.why = "cannot bind to what the master has chosen: " + err.Error()
		case !cpus.IsEmpty():
			b.cores = binding.OfProcessors(t, granted.Instance, cpus)
			b.variables = granted.variables(t.MarkedShape(cpus), cpus)
		}
	}
	if p.Cores != nil {
		if b.cores, err = p.chooseCores(spool, t, queue); err != nil {
			b.why = err.Error()
		}
	}
	b.affinity = b.cores.Affinity(t, queue)
	if b.why == "" && b.affinity.CPUs.IsEmpty() && !queue.IsEmpty() {
		b.why = fmt.Sprintf("cannot bind to the processors %s of queue %s: of this host only %s can be used", queue, p.Description.Queue, t.Usable())
	}
	return b
}

func (p *Plan) chooseCores(spool *jobdir.Spool, t topology.Topology, queue topology.CPUSet) (binding.Binding, error) {
	used, _, err := coresInUse(spool, p.Description.Host, t, nil)
	if err != nil {
		// Two jobs bound to the same core are worse than an unbound job.
		return binding.Binding{}, fmt.Errorf("cannot determine which cores are in use: %w", err)
	}
	r := *p.Cores
	r.Queue = queue
	return binding.Choose(t, used, r, p.Description.HostSlots)
}

// readTopology reads the processors of this host that this process may use.
func readTopology() (topology.Topology, error) {
	allowed, err := allowed()
	if err != nil {
		return topology.Topology{}, err
	}
	return topology.Read(os.ReadFile, allowed)
}

// Tree returns the parts of this host that jobs may use, in the form of topology.Topology.Tree.
func Tree() (string, error) {
	t, err := readTopology()
	if err != nil {
		return "", err
	}
	return t.Tree(os.ReadFile), nil
}

// allowed returns the processors and memory nodes that this process may use.
func allowed() (topology.Allowed, error) {
	cpus, err := limits.Affinity()
	if err != nil {
		return topology.Allowed{}, fmt.Errorf("cannot determine which processors can be used: %w", err)
	}
	return topology.Allowed{CPUs: cpus, Mems: allowedMems()}, nil
}

// allowedMems returns the NUMA nodes whose memory this process may use; empty for all nodes, or if
// that is unknown.
func allowedMems() (mems topology.CPUSet) {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if _, rest, ok := bytes.Cut(status, []byte("\nMems_allowed_list:")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			if list, err := topology.ParseList(string(bytes.TrimSpace(line))); err == nil {
				mems = list
			}
		}
	}
	return mems
}

// coresInUse returns the cores with a processor that belongs to an unfinished job on this host. It
// compares processors and not core numbers, because core numbers differ for processes that may use
// other processors. foreign is the number of jobs that are not in known.
func coresInUse(spool *jobdir.Spool, host string, t topology.Topology, known map[string]string) (used binding.InUse, foreign int, err error) {
	used = make(binding.InUse)
	ids, err := spool.Jobs()
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		var cpus topology.CPUSet
		if text, ok := known[spool.JobPath(id)]; ok {
			cpus, err = topology.ParseList(text)
		} else {
			foreign++
			cpus, err = boundTo(spool, id, host)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("job %s: %w", id, err)
		}
		if !cpus.IsEmpty() {
			used.Add(t.With(cpus))
		}
	}
	return used, foreign, nil
}

// boundTo returns the processors of a job's cores, none if it has ended.
func boundTo(spool *jobdir.Spool, id job.ID, host string) (none topology.CPUSet, err error) {
	dir, err := spool.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil // removed meanwhile
	}
	if err != nil {
		return none, err
	}
	defer dir.Close()
	if _, ended, err := dir.ExitStatus(); err == nil && ended || abandoned(dir) {
		return none, nil
	}
	d, err := dir.Description()
	switch {
	case errors.Is(err, jobdir.ErrIncomplete):
		return none, nil // a job without cores: jobs with cores are prepared one at a time
	case err != nil:
		return none, err
	case !strings.EqualFold(d.Host, host): // a home directory that hosts share
		return none, nil
	}
	return topology.ParseList(d.BindingCPUs)
}

// abandoned reports whether both the supervisor and the waiting process of a foreground job were
// killed.
func abandoned(dir *jobdir.Dir) bool {
	if waiting, err := dir.Exists(fileWaiting); err != nil || !waiting {
		return false
	}
	// Each open of the directory has a separate lock.
	return dir.Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) }) == nil
}

// bindingRequest converts a binding of package submit.
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
