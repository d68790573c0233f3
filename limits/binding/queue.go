package binding

import (
	"errors"
	"strconv"
	"strings"

	"github.com/execd-project/execd/limits/topology"
)

// Processors reads the processors of a queue (queue_conf(5)): the operating system's numbers and
// ranges of them, as in "1-4,8,10". "" and UNDEFINED return the empty set, which means that jobs
// may use all processors.
func Processors(text string) (topology.CPUSet, error) {
	if text == "" || strings.EqualFold(text, "UNDEFINED") {
		return topology.CPUSet{}, nil
	}
	cpus, err := topology.ParseList(text)
	if err != nil {
		return topology.CPUSet{}, errors.New("cannot read processors " + strconv.Quote(text) + ": " + err.Error())
	}
	return cpus, nil
}

// Affinity holds the processors and memory nodes to which a job is restricted, by
// sched_setaffinity(2) or by a cpuset. The zero value is no restriction.
type Affinity struct {
	CPUs topology.CPUSet
	// Mems are the memory nodes of CPUs. It is empty if they are unknown; memory is then not
	// restricted.
	Mems topology.CPUSet
}

// Affinity returns the processors and memory nodes to which a job with this binding is restricted
// in a queue with these processors (empty for all): the job's own cores, or the processors of the
// queue if the job has no cores or binds itself. If none of these can be used on the host, there is
// no restriction.
func (b Binding) Affinity(t topology.Topology, queue topology.CPUSet) Affinity {
	if b.Binds() {
		return Affinity{b.CPUs, b.Mems}
	}
	cpus := queue.Intersect(t.Usable())
	return Affinity{cpus, t.MemsOf(cpus)}
}
